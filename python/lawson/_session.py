"""Session: one network on one device, and what is bound to it."""
from __future__ import annotations

import collections.abc
import json
import operator
import os
import tempfile
import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _tensor
from ._deciding import DecidingContext, says_so, value_option
from ._library import MODEL_INVALID, UNSUPPORTED, USAGE, Error
from ._model import (Context, Model, Option, TensorInfo, cache_folder,
                     environment_options, inspect, shape_option)
from ._tensor import Tensor, View

Key = Union[int, str]

# What compiling for the shapes of a run says when values of inputs may be what is missing: the branch
# of an If that is not taken may not even be valid for them.
_PERHAPS_DECIDED = (USAGE, UNSUPPORTED, MODEL_INVALID)


class Session:
    """A network, compiled, with everything it needs to run.

    model          an ONNX file's name, or the bytes of one
    device         "auto", "cpu", "cuda", "cuda:N" or "null"
    channels_last  4-D inputs and outputs are stored NHWC (shapes stay NCHW)
    dims           {"batch": 2}: extents of symbolic dimensions
    shapes         {"x": (2, 3, 64, 64)}: shapes of inputs
    values         {"rate": [16000]}: elements of inputs that become constants: the session has them
                   no longer
    cache          folder where kernels are kept; "" keeps none
    shapes_kept    for how many shapes of its inputs a network with open dimensions stays compiled
    options        further options of the library by name: fuse=False, threads=4, policy="classic"

    Dimensions that stay open are bound by the shapes of the inputs of each run: it is compiled for
    shapes that it has not seen. The same holds for values of small inputs that decide shapes or
    branches.

    One run at a time: run() waits for its turn, other threads may use sessions of their own.
    """

    def __init__(self, model: Union[str, "os.PathLike[str]", bytes], device: str = "auto",
                 channels_last: bool = False, dims: Optional[Mapping[str, int]] = None,
                 shapes: Optional[Mapping[str, Sequence[int]]] = None,
                 values: Optional[Mapping[str, Sequence[float]]] = None,
                 cache: Optional[str] = None, shapes_kept: int = 8, **options: Any) -> None:
        self._file: Any = None
        self._closed = False
        self._bound: Dict[Tuple[bool, int], View] = {}
        self._ran = self._proved = False
        self._lock = threading.RLock()
        if isinstance(model, (bytes, bytearray, memoryview)):
            self._file = tempfile.NamedTemporaryFile(prefix="lawson-", suffix=".onnx")
            self._file.write(model)
            self._file.flush()
            self.path: str = self._file.name
        else:
            self.path = os.fspath(model)
        self._options: List[Option] = [("cache", cache_folder() if cache is None else cache)]
        self._options += environment_options()
        self._options += [("device", device), ("channels_last", bool(channels_last)),
                          ("max_shapes", max(int(shapes_kept), 1))]
        self._options += [("dim", f"{name}={extent}") for name, extent in (dims or {}).items()]
        self._options += [shape_option(name, shape) for name, shape in (shapes or {}).items()]
        self._options += list(options.items())
        self._options += [value_option(name, elements) for name, elements in (values or {}).items()]
        self._kept = max(int(shapes_kept), 1)
        self._context = self._load(device, self._kept)
        if self._context.is_open:  # the file, which may be read again, has the names of what is open
            summary = inspect(self.path, self._options)
            self.inputs, self.outputs = summary.inputs, summary.outputs
        else:
            self.inputs, self.outputs = self._context.model.inputs, self._context.model.outputs
            self._let_file_go()

    def _load(self, device: str, kept: int) -> Union[Context, DecidingContext]:
        try:
            model = Model(self.path, self._options)
        except Error as error:
            if not says_so(str(error)):
                raise
            return DecidingContext(self.path, self._options, error, kept, device)
        return Context(model)

    def _shapes_suffice(self) -> bool:
        """Compiles for what is bound, the first time. Where shapes do not decide everything, values
        of inputs are tried from now on: false, and the context is another one."""
        try:
            if self._context.is_open and self.outputs and not self._proved:
                self._context.output_shape(0)
            self._proved = True
        except Error as error:
            if error.status not in _PERHAPS_DECIDED or isinstance(self._context, DecidingContext):
                raise
            deciding = DecidingContext(self.path, self._options, error, self._kept,
                                       self._context.device)
            self._context.close()
            self._context = deciding
            return False
        return True

    def _let_file_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _require_open(self) -> None:
        if self._closed:
            raise Error(USAGE, "the session is closed")

    @staticmethod
    def _require_fit(info: TensorInfo, shape: Tuple[int, ...]) -> None:
        if len(shape) != len(info.shape) or any(
                isinstance(want, int) and want != got for want, got in zip(info.shape, shape)):
            raise Error(USAGE, f"input '{info.name}': {list(shape)} was given, the model has "
                        f"{['?' if e is None else e for e in info.shape]}")

    # ---- what it is ----

    def __repr__(self) -> str:
        ports = [", ".join(f"{i.name}: {i.dtype}[{', '.join(map(str, i.shape))}]" for i in infos)
                 for infos in (self.inputs, self.outputs)]
        where = "closed" if self._closed else f"on {self.device}"
        return f"<lawson.Session {self.path!r} {where}: ({ports[0]}) -> ({ports[1]})>"

    @property
    def device(self) -> str:
        """ "cpu", "cuda:0", "null": where the model runs."""
        self._require_open()
        return self._context.device

    def get_inputs(self) -> List[TensorInfo]:
        """The inputs, as ONNX Runtime names the call: each has `name`, `type` and `shape`."""
        return list(self.inputs)

    def get_outputs(self) -> List[TensorInfo]:
        """The outputs, as ONNX Runtime names the call."""
        return list(self.outputs)

    # ---- bindings ----

    def _index(self, key: Key, is_input: bool) -> int:
        """The number of the port with this name or number."""
        what, infos = ("input", self.inputs) if is_input else ("output", self.outputs)
        if isinstance(key, str):
            for n, info in enumerate(infos):
                if info.name == key:
                    return n
            raise Error(USAGE, f"there is no {what} '{key}', the model has "
                        + ", ".join(info.name for info in infos))
        try:
            index = operator.index(key)
        except TypeError:
            raise TypeError(f"an {what} is named by its name or number, not by {key!r}") from None
        if not 0 <= index < len(infos):
            raise Error(USAGE, f"there is no {what} {index}, the model has {len(infos)}")
        return index

    def _view(self, index: int, array: Any, is_input: bool) -> View:
        info = (self.inputs if is_input else self.outputs)[index]
        where = f"{'input' if is_input else 'output'} {index} ('{info.name}')"
        view = _tensor.view(array)
        if not is_input and not view.writable:
            raise Error(USAGE, f"{where}: the array is read-only")
        return view

    def _bind(self, key: Key, array: Any, is_input: bool) -> None:
        self._require_open()
        index = self._index(key, is_input)
        view = self._view(index, array, is_input)
        with self._lock:
            self._context.bind(index, view, is_input)  # what does not fit is said at once
            self._bound[is_input, index] = view

    def bind(self, key: Key, array: Any) -> None:
        """The input of this name or number is read from |array| (DLPack or NumPy) at every run,
        without a copy."""
        self._bind(key, array, True)

    def bind_output(self, key: Key, array: Any) -> None:
        """The output of this name or number is written to |array| at every run, without a copy."""
        self._bind(key, array, False)

    def _bind_all(self, bound: Mapping[Tuple[bool, int], View]) -> Union[Context, DecidingContext]:
        """The context with all of these bound to it."""
        for (is_input, index), view in bound.items():
            if is_input and self.inputs[index].is_open:
                self._require_fit(self.inputs[index], view.shape)
            self._context.bind(index, view, is_input)
        self._ran = True
        if not self._shapes_suffice():
            return self._bind_all(bound)
        return self._context

    def enqueue(self, stream: int = 0) -> None:
        """Puts one run into the CUDA stream at pointer |stream| (0: the legacy default stream) and
        returns. Everything must be bound to memory of the device. On a CPU it runs and returns."""
        self._require_open()
        with self._lock:
            self._bind_all(self._bound).enqueue(stream)

    def run_bound(self) -> None:
        """One run with what is bound; waits for its end."""
        self._require_open()
        with self._lock:
            self._bind_all(self._bound).run()

    def io_binding(self) -> "IOBinding":
        """A set of bindings of its own, for `run_with_iobinding`."""
        self._require_open()
        return IOBinding(self)

    def run_with_iobinding(self, binding: "IOBinding") -> None:
        """One run with what |binding| holds; waits for its end."""
        self._require_open()
        if binding.session is not self:
            raise Error(USAGE, "the binding is of another session")
        with self._lock:
            binding._prepare().run()

    # ---- runs ----

    def _feed(self, feed: Any) -> Dict[int, Any]:
        """Arrays by the number of their input, from a list in the model's order or a dictionary."""
        if isinstance(feed, collections.abc.Mapping):
            by_number = {self._index(key, True): array for key, array in feed.items()}
        elif isinstance(feed, collections.abc.Sequence) and not isinstance(feed, (str, bytes)):
            if len(feed) != len(self.inputs):
                raise Error(USAGE, f"{len(feed)} inputs were given, the model has "
                            f"{len(self.inputs)}")
            by_number = dict(enumerate(feed))
        else:
            raise TypeError("run() takes a dictionary of arrays by name or a list of arrays in the "
                            "model's order (" + ", ".join(info.name for info in self.inputs)
                            + f"), not {type(feed).__name__}")
        missing = [info.name for i, info in enumerate(self.inputs) if i not in by_number]
        if missing:
            raise Error(USAGE, "inputs are missing: " + ", ".join(missing))
        return by_number

    def run(self, output_names: Any, input_feed: Any = None) -> List[Any]:
        """Runs and returns NumPy arrays.

        run(names, feed)  in ONNX Runtime's form: a list of outputs' names, or None for all, and a
                          dictionary of arrays by the inputs' names
        run(feed)         all outputs; |feed| may also be a list in the model's order

        An output whose size depends on data (NonZero ...) comes with the size that it has.
        Arrays are anything that speaks DLPack or NumPy's array interface.
        """
        self._require_open()
        names, feed = (None, output_names) if input_feed is None else (output_names, input_feed)
        if isinstance(names, (str, bytes)):
            raise TypeError("the outputs are a list of names")
        counts = self._context.model.counts if isinstance(self._context, Context) else {}
        hidden = {at for at, _ in counts.values()}
        wanted = ([i for i in range(len(self.outputs)) if i not in hidden] if names is None
                  else [self._index(name, False) for name in names])
        views = {i: self._view(i, array, True) for i, array in self._feed(feed).items()}
        with self._lock:
            context = self._bind_all({(True, i): view for i, view in views.items()})
            results = [_tensor.numpy_empty(info.dtype, context.output_shape(i))
                       for i, info in enumerate(self.outputs)]
            self._bind_all({(False, i): _tensor.view(array)
                            for i, array in enumerate(results)}).run()
        for i, (at, axis) in counts.items():  # what lies behind the count is anything
            results[i] = results[i][(slice(None),) * axis + (slice(0, int(results[at])),)]
        return [results[i] for i in wanted]

    # ---- facts ----

    def _ran_context(self) -> Union[Context, DecidingContext]:
        self._require_open()
        if self._context.is_open and not self._ran:
            raise Error(USAGE, "nothing ran yet: dimensions are open until the first run, or give "
                        "them as dims={name: extent} or shapes={input: (2, 3, ...)}")
        return self._context

    def stats(self) -> Dict[str, float]:
        """Counts of one run and facts of the compilation: kernels, library_calls, copies,
        compile_s ... With open dimensions: of the last run, and shapes_compiled, shapes_ready."""
        return self._ran_context().stats()

    def explain(self) -> Dict[str, Any]:
        """What was fused, what was not and why (docs/explain.md). With open dimensions: for the
        shapes that were compiled first."""
        report: Dict[str, Any] = json.loads(self._ran_context().model.explain())
        return report

    def close(self) -> None:
        """Gives device and memory back; the session cannot be used afterwards. Tensors that it made
        stay valid."""
        if hasattr(self, "_context"):
            self._context.close()
        self._bound = {}
        self._let_file_go()
        self._closed = True

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self.close()


class IOBinding:
    """Inputs and outputs of one session by name or number, used without copies at every
    `session.run_with_iobinding(binding)`. Independent of `Session.bind`; a session may have many."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._views: Dict[Tuple[bool, int], View] = {}
        self._given: Dict[int, Any] = {}           # outputs in memory of the caller's
        self._wanted: Dict[int, Optional[str]] = {}  # outputs that the session makes, and where
        self._made: Dict[int, Tensor] = {}

    def bind_input(self, key: Key, array: Any) -> None:
        """The input of this name or number is read from |array|."""
        index = self.session._index(key, True)
        self._views[True, index] = self.session._view(index, array, True)

    bind_cpu_input = bind_input  # ONNX Runtime's name for it

    def bind_output(self, key: Key, array: Any = None, device: Optional[str] = None) -> None:
        """The output of this name or number is written to |array|; without one to a `Tensor` that is
        made for it on |device|: "cpu", or the session's own device (the default)."""
        index = self.session._index(key, False)
        self._wanted.pop(index, None)
        self._given.pop(index, None)
        self._made.pop(index, None)
        self._views.pop((False, index), None)
        if array is None:
            self._wanted[index] = device
        else:
            self._views[False, index] = self.session._view(index, array, False)
            self._given[index] = array

    def clear_binding_inputs(self) -> None:
        self._views = {key: view for key, view in self._views.items() if not key[0]}

    def clear_binding_outputs(self) -> None:
        self._views = {key: view for key, view in self._views.items() if key[0]}
        self._given, self._wanted, self._made = {}, {}, {}

    def enqueue(self, stream: int = 0) -> None:
        """One run in the CUDA stream at pointer |stream|, without waiting (`Session.enqueue`)."""
        self.session._require_open()
        with self.session._lock:
            self._prepare().enqueue(stream)

    def get_outputs(self) -> List[Any]:
        """The outputs of the last run in the model's order: what was given for them, or the `Tensor`
        that was made. An output that nobody bound is made as well."""
        return [self._given[i] if i in self._given else self._made[i]
                for i in range(len(self.session.outputs)) if i in self._given or i in self._made]

    def copy_outputs_to_cpu(self) -> List[Any]:
        """The same as NumPy arrays."""
        import numpy
        return [output.numpy() if isinstance(output, Tensor) else numpy.asarray(output)
                for output in self.get_outputs()]

    def _prepare(self) -> Union[Context, DecidingContext]:
        context = self.session._bind_all({key: view for key, view in self._views.items() if key[0]})
        for index, info in enumerate(self.session.outputs):
            made = self._made.get(index)
            if index in self._given:
                continue
            shape = context.output_shape(index)
            if made is not None and tuple(made.shape) == shape:
                continue
            self._made[index] = _make(context.model, info, shape, self._wanted.get(index))
            self._views[False, index] = self._made[index].view()
        return self.session._bind_all(self._views)


def _make(model: Model, info: TensorInfo, shape: Tuple[int, ...],
          device: Optional[str]) -> Tensor:
    """A tensor for an output of |model|."""
    own = model.device if model.device.startswith("cuda") else "cpu"
    device = own if device is None else device
    if device == "cpu":
        array = _tensor.numpy_empty(info.dtype, shape)
        return Tensor(array.ctypes.data, info.dtype, shape, "cpu", array)
    if device not in (own, own.partition(":")[0]):
        raise Error(USAGE, f"output '{info.name}' cannot be made on {device}: the model runs on "
                    f"{model.device}")
    memory = _DeviceMemory(model, _tensor.size_bytes(info.dtype, shape))
    return Tensor(memory.pointer, info.dtype, shape, own, memory, model.download)


class _DeviceMemory:
    """Memory of a model's device, given back when the last tensor in it goes."""

    def __init__(self, model: Model, size: int) -> None:
        self.model, self.pointer = model, model.allocate(size)

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            self.model.free(self.pointer)
