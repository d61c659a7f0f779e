"""Networks whose shapes or branches depend on what an input holds (the target of a Reshape, the bounds
of a Slice, the condition of an If): compiled for the values that runs bring, which become constants."""
from __future__ import annotations

import collections
import ctypes
import re
import struct
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._library import USAGE, Error
from ._model import (Context, Model, Option, Summary, TensorInfo, inspect,
                     shape_option)
from ._tensor import HOST, View, size_bytes

MOST_ELEMENTS = 1024  # of an input that may decide

# How struct reads an element. What is not here (bf16, f8) decides nothing.
_CODES = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H",
          "u32": "I", "u64": "Q", "f16": "e", "f32": "f", "f64": "d"}

Values = Tuple[Tuple[str, Tuple[Any, ...]], ...]


def says_so(message: str) -> bool:
    """Whether an error of the importer blames that a value is not known."""
    return re.search("computed from data|must be known when", message) is not None


def may_decide(info: TensorInfo) -> bool:
    """Scalars and vectors: what ONNX has shapes, axes, bounds and conditions in."""
    return len(info.shape) <= 1 and info.dtype in _CODES


def read(view: View, name: str) -> Tuple[Any, ...]:
    """The elements of a scalar or vector."""
    count = view.shape[0] if view.shape else 1
    if view.memory != HOST:
        raise Error(USAGE, f"input '{name}' decides shapes: it has to lie in memory of the host")
    if count > MOST_ELEMENTS or view.dtype not in _CODES:
        return ()
    size = size_bytes(view.dtype, ())
    step = size * (view.strides()[0] if view.shape else 1)
    start = view.tensor.data or 0
    return tuple(struct.unpack("<" + _CODES[view.dtype], ctypes.string_at(start + n * step, size))[0]
                 for n in range(count))


def value_option(name: str, elements: Sequence[Any]) -> Option:
    return "value", f"{name}=" + ",".join(str(int(e)) if isinstance(e, bool) else repr(e)
                                          for e in elements)


class DecidingContext:
    """What a Context is, over one Context for each set of values of the inputs that decide. Which do
    is found out at the first run: those without whose value the file cannot be imported."""

    def __init__(self, path: str, pairs: Sequence[Option], refusal: Error, kept: int,
                 device: str) -> None:
        summary = inspect(path, pairs)
        self.inputs, self.outputs = summary.inputs, summary.outputs
        if not any(map(may_decide, self.inputs)):
            raise refusal
        self._path, self._pairs = path, list(pairs)
        self._kept, self._wanted_device = kept, device
        self._names: Optional[List[str]] = None  # of the inputs that decide
        self._views: Dict[Tuple[bool, int], View] = {}
        self._contexts: "collections.OrderedDict[Values, Context]" = collections.OrderedDict()
        self._latest: Optional[Context] = None

    # ---- which values decide ----

    def _import(self, shapes: Sequence[Option], values: Dict[str, Tuple[Any, ...]]) -> Summary:
        pairs = [value_option(name, elements) for name, elements in values.items()]
        return inspect(self._path, [*self._pairs, *shapes, *pairs])

    def _find(self, values: Dict[str, Tuple[Any, ...]]) -> List[str]:
        shapes = [shape_option(info.name, self._views[True, i].shape)
                  for i, info in enumerate(self.inputs)]
        whole = self._import(shapes, values)
        if whole.status != 0:
            raise Error(whole.status, whole.problem)
        needed = dict(values)
        for name in values:
            fewer = {key: needed[key] for key in needed if key != name}
            if self._import(shapes, fewer).status == 0:
                needed = fewer
        return list(needed)

    def _values(self) -> Values:
        candidates = {info.name: i for i, info in enumerate(self.inputs)
                      if may_decide(info) and (self._names is None or info.name in self._names)}
        missing = [info.name for i, info in enumerate(self.inputs) if (True, i) not in self._views]
        if missing:
            raise Error(USAGE, "inputs decide shapes, of which these are missing: "
                        + ", ".join(missing))
        values = {name: read(self._views[True, i], name) for name, i in candidates.items()}
        if self._names is None:
            self._names = self._find({name: v for name, v in values.items()
                                      if v or self._views[True, candidates[name]].shape == (0,)})
        return tuple((name, values[name]) for name in self._names)

    def _choose(self) -> Context:
        """The context for the values that are bound now, with everything bound to it."""
        values = self._values()
        context = self._contexts.get(values)
        if context is None:
            pairs = [value_option(name, elements) for name, elements in values]
            context = Context(Model(self._path, [*self._pairs, *pairs]))
            while len(self._contexts) >= self._kept:
                self._contexts.popitem(last=False)[1].close()
            self._contexts[values] = context
        self._contexts.move_to_end(values)
        numbers = {info.name: n for n, info in enumerate(context.model.inputs)}
        for (is_input, index), view in self._views.items():
            number: Optional[int] = numbers.get(self.inputs[index].name) if is_input else index
            if number is not None:
                context.bind(number, view, is_input)
        self._latest = context
        return context

    # ---- as a Context ----

    @property
    def is_open(self) -> bool:
        return True

    @property
    def device(self) -> str:
        return self._wanted_device if self._latest is None else self._latest.device

    @property
    def model(self) -> Model:
        """Of the last run, or of the values that are bound."""
        return (self._latest or self._choose()).model

    def bind(self, index: int, view: View, is_input: bool) -> None:
        info = (self.inputs if is_input else self.outputs)[index]
        view.retype(info.dtype)
        self._views[is_input, index] = view

    def output_shape(self, index: int) -> Tuple[int, ...]:
        kept = {key: view for key, view in self._views.items() if not key[0]}
        for key in kept:  # of an earlier run: their shapes need not fit
            del self._views[key]
        shape = self._choose().output_shape(index)
        self._views.update(kept)
        return shape

    def run(self) -> None:
        self._choose().run()

    def enqueue(self, stream: int) -> None:
        self._choose().enqueue(stream)

    def stats(self) -> Dict[str, float]:
        context = self._latest or self._choose()
        return context.stats()

    def close(self) -> None:
        for context in self._contexts.values():
            context.close()
        self._contexts.clear()
        self._views.clear()
        self._latest = None
