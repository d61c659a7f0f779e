"""One compiled model with one context, as the C library has them; and what a file holds, without
compiling it. Session (_session.py) is what users see."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._library import (DTYPES, OUT_OF_MEMORY, USAGE, Error, MAX_RANK, ReasonC, ShapeStatsC,
                       StatsC, SummaryC, library,
                       text)
from ._tensor import DEVICE, View

# Variables of the environment that become options, as on the command line.
_ENVIRONMENT = (("CC", "cc"), ("LW_CC", "cc"), ("LAWSON_NVRTC", "nvrtc"), ("LAWSON_CUDA", "cuda"))

_ONNX_TYPES = {"f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16",
               "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
               "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
               "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2"}

Extent = Union[int, str, None]
Option = Tuple[str, Any]


class TensorInfo(NamedTuple):
    """An input or output: its name, element type ("f32", "i64", "bf16" ...) and shape. An extent
    that is open until a run gives it is the name of its symbol, or None when it has no name."""

    name: str
    dtype: str
    shape: Tuple[Extent, ...]

    @property
    def type(self) -> str:
        """The type in ONNX Runtime's words: "tensor(float)"."""
        return f"tensor({_ONNX_TYPES.get(self.dtype, self.dtype)})"

    def known_shape(self) -> List[int]:
        """The shape of a port of which nothing is open."""
        return [extent for extent in self.shape if isinstance(extent, int)]

    @property
    def is_open(self) -> bool:
        """Whether an extent is still open."""
        return any(not isinstance(extent, int) for extent in self.shape)


def cache_folder() -> str:
    """$LAWSON_CACHE, else $XDG_CACHE_HOME/lawson, else ~/.cache/lawson."""
    folder = os.environ.get("LAWSON_CACHE")
    if folder is not None:
        return "" if folder == "off" else folder
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    try:
        os.makedirs(base, mode=0o700, exist_ok=True)
    except OSError:
        return ""
    return os.path.join(base, "lawson")


def environment_options() -> List[Option]:
    pairs: List[Option] = [("path", os.environ.get("PATH", ""))]
    for variable, name in _ENVIRONMENT:
        value = os.environ.get(variable)
        if value:
            pairs.append((name, value))
    return pairs


def shape_option(name: str, shape: Iterable[int]) -> Option:
    return "shape", f"{name}=" + "x".join(map(str, shape))


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


class Options:
    """An lw_options for the length of a with statement."""

    def __init__(self, pairs: Sequence[Option]) -> None:
        self._pairs = pairs
        self._made = ctypes.c_void_p()

    def __enter__(self) -> ctypes.c_void_p:
        lib = library()
        if lib.lw_options_create(ctypes.byref(self._made)):
            raise Error(OUT_OF_MEMORY, "out of memory")
        for name, value in self._pairs:
            status = lib.lw_options_set(self._made, name.encode(), _option_text(value).encode())
            if status:
                message = text(lib.lw_options_error(self._made))
                self.__exit__()
                raise Error(status, message)
        return self._made

    def __exit__(self, *_: object) -> None:
        library().lw_options_destroy(self._made)


class Summary(NamedTuple):
    """What is in a file: its ports, and what loading it would say before it compiles."""

    inputs: List[TensorInfo]
    outputs: List[TensorInfo]
    status: int
    problem: str


def _extent(word: str) -> Extent:
    if word.isdigit():
        return int(word)
    return None if word in ("?", "-1") else word


def _port(port: Any) -> TensorInfo:
    shape = text(port.shape).strip("[]")
    words = shape.split(", ") if shape else []
    return TensorInfo(text(port.name), text(port.type), tuple(_extent(word) for word in words))


def inspect(path: str, pairs: Sequence[Option]) -> Summary:
    """Reads a file without compiling it. Reads no weights, needs no device and no compiler."""
    lib, reason, summary = library(), ReasonC(), ctypes.POINTER(SummaryC)()
    with Options(pairs) as options:
        status = lib.lw_tools_inspect(os.fsencode(path), options, ctypes.byref(summary),
                                      ctypes.byref(reason))
    if status:
        raise Error(status, text(reason.text))
    try:
        s = summary.contents
        return Summary([_port(s.inputs[i]) for i in range(s.input_count)],
                       [_port(s.outputs[i]) for i in range(s.output_count)],
                       s.status, text(s.problem))
    finally:
        lib.lw_tools_summary_destroy(summary)


def has_device(name: str) -> bool:
    """Whether this machine has the device ("cuda:0") and what it needs."""
    lib, device = library(), ctypes.c_void_p()
    with Options([*environment_options(), ("device", name)]) as options:
        status = lib.lw_tools_device_open(options, ctypes.byref(device), None)
    if status == 0:
        lib.lw_tools_device_close(device)
    return bool(status == 0)


class Model:
    """A compiled model; destroyed when the last reference to it goes."""

    def __init__(self, path: str, pairs: Sequence[Option]) -> None:
        lib = self._library = library()
        self.handle = ctypes.c_void_p()
        with Options(pairs) as options:
            status = lib.lw_model_load(os.fsencode(path), options, ctypes.byref(self.handle))
        if status:
            raise Error(status, text(lib.lw_model_error(self.handle)))
        self.inputs = self._infos(lib.lw_model_input_count, lib.lw_model_input)
        self.outputs = self._infos(lib.lw_model_output_count, lib.lw_model_output)
        #: Of outputs whose size depends on data: which output holds the count, along which axis.
        self.counts = self._counts()
        self.device: str = text(lib.lw_model_device(self.handle))

    def _counts(self) -> Dict[int, Tuple[int, int]]:
        counts, at, axis = {}, ctypes.c_size_t(), ctypes.c_int()
        for i in range(len(self.outputs)):
            if self._library.lw_model_output_count_of(self.handle, i, ctypes.byref(at),
                                                      ctypes.byref(axis)):
                counts[i] = (at.value, axis.value)
        return counts

    def _infos(self, count: Any, get: Any) -> List[TensorInfo]:
        infos = []
        for i in range(count(self.handle)):
            info = get(self.handle, i).contents
            infos.append(TensorInfo(text(info.name), DTYPES[info.dtype],
                                    tuple(e if e >= 0 else None for e in info.dims[:info.rank])))
        return infos

    @property
    def is_open(self) -> bool:
        """Whether dimensions are open until a run."""
        return any(info.is_open for info in self.inputs)

    def explain(self) -> str:
        report = ctypes.c_char_p()
        status = self._library.lw_model_explain(self.handle, ctypes.byref(report))
        if status:
            raise Error(status, "there is no report")
        return text(report.value)

    def allocate(self, size: int) -> int:
        """Memory on the model's device, given back with free()."""
        memory = ctypes.c_void_p()
        status = self._library.lw_tools_alloc(self.handle, max(size, 1), ctypes.byref(memory))
        if status:
            raise Error(status, f"no {size} bytes could be had on {self.device}")
        return memory.value or 0

    def free(self, memory: int) -> None:
        self._library.lw_tools_free(self.handle, memory)

    def download(self, target: int, source: int, size: int) -> None:
        """Copies from the device to the host."""
        status = self._library.lw_tools_download(self.handle, target, source, size)
        if status:
            raise Error(status, f"{size} bytes could not be copied from {self.device}")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.lw_model_destroy(self.handle)


class Context:
    """A model's one context, with what is bound to it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._library = library()
        self._handle: Optional[ctypes.c_void_p] = ctypes.c_void_p()
        self._bound: Dict[Tuple[bool, int], View] = {}  # what the context points into must stay alive
        self._check(self._library.lw_context_create(model.handle, ctypes.byref(self._handle)))

    @property
    def is_open(self) -> bool:
        """Whether something is decided by the runs."""
        return self.model.is_open

    @property
    def device(self) -> str:
        return self.model.device

    def _check(self, status: int) -> None:
        if status:
            raise Error(status, text(self._library.lw_context_error(self._handle)))

    def bind(self, index: int, view: View, is_input: bool) -> None:
        """Does nothing when the view is bound there already."""
        if self._bound.get((is_input, index)) is view:
            return
        info = (self.model.inputs if is_input else self.model.outputs)[index]
        if view.memory == DEVICE and self.model.device != f"cuda:{view.device_index}":
            raise Error(USAGE, f"{'input' if is_input else 'output'} '{info.name}' lies on "
                        f"cuda:{view.device_index}, the model runs on {self.model.device}")
        view.retype(info.dtype)
        bind = (self._library.lw_context_bind_input if is_input
                else self._library.lw_context_bind_output)
        self._check(bind(self._handle, index, ctypes.byref(view.tensor)))
        self._bound[is_input, index] = view

    def output_shape(self, index: int) -> Tuple[int, ...]:
        """The shape that an output has with the inputs that are bound."""
        if not self.model.is_open:
            return tuple(self.model.outputs[index].known_shape())
        rank, dims = ctypes.c_int(), (ctypes.c_int64 * MAX_RANK)()
        self._check(self._library.lw_context_output_dims(self._handle, index, ctypes.byref(rank),
                                                         dims))
        return tuple(dims[:rank.value])

    def run(self) -> None:
        self._check(self._library.lw_context_run(self._handle))

    def enqueue(self, stream: int) -> None:
        self._check(self._library.lw_context_enqueue(self._handle, stream))

    def stats(self) -> Dict[str, float]:
        stats = StatsC()
        self._library.lw_context_stats(self._handle, ctypes.byref(stats))
        shapes = ShapeStatsC()
        self._library.lw_context_shape_stats(self._handle, ctypes.byref(shapes))
        counts = {field[0]: getattr(stats, field[0]) for field in StatsC._fields_}
        return {**counts, "shapes_compiled": shapes.compiled, "shapes_ready": shapes.ready}

    def close(self) -> None:
        if getattr(self, "_handle", None):
            self._library.lw_context_destroy(self._handle)
        self._handle = None
        self._bound = {}

    def __del__(self) -> None:
        self.close()
