"""Session: one model on one device, with one context to run it."""
import collections
import collections.abc
import ctypes
import json
import operator
import os

from . import _tensor
from ._library import DTYPES, Error, StatsC, library

_USAGE = 2

TensorInfo = collections.namedtuple("TensorInfo", "name dtype shape")
TensorInfo.__doc__ = """An input or output: its name, element type ("f32", "i64", "bf16" ...) and shape."""

# Variables of the environment that become options, as on the command line.
_ENVIRONMENT = (("CC", "cc"), ("LW_CC", "cc"), ("LAWSON_NVRTC", "nvrtc"), ("LAWSON_CUDA", "cuda"))


def _cache_folder():
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


def _text(value):
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


class Session:
    """A model, compiled, with everything it needs to run.

    path           an ONNX file
    device         "auto", "cpu", "cuda", "cuda:N" or "null"
    channels_last  4-D inputs and outputs are stored NHWC (shapes stay NCHW)
    dims           {"batch": 2}: extents of symbolic dimensions
    shapes         {"x": (2, 3, 64, 64)}: shapes of inputs
    cache          folder where kernels are kept; "" keeps none
    options        further options of the library by name: fuse=False, threads=4, policy="classic"

    One session runs one inference at a time; use one per thread.
    """

    def __init__(self, path, device="auto", channels_last=False, dims=None, shapes=None,
                 cache=None, **options):
        self._model = self._context = None
        if isinstance(path, (bytes, bytearray, memoryview)):
            raise TypeError("path is the name of an ONNX file, not the bytes of a model: write "
                            "them to a file first")
        self.path = os.fspath(path)
        self._library = library()
        pairs = [("cache", _cache_folder() if cache is None else cache),
                 ("path", os.environ.get("PATH", ""))]
        for variable, name in _ENVIRONMENT:
            value = os.environ.get(variable)
            if value:
                pairs.append((name, value))
        pairs += [("device", device), ("channels_last", bool(channels_last))]
        pairs += [("dim", f"{name}={extent}") for name, extent in (dims or {}).items()]
        pairs += [("shape", f"{name}=" + "x".join(map(str, shape)))
                  for name, shape in (shapes or {}).items()]
        pairs += list(options.items())
        self._load(self.path, pairs)
        self._create_context()
        self.inputs = self._infos(self._library.lw_model_input_count,
                                  self._library.lw_model_input)
        self.outputs = self._infos(self._library.lw_model_output_count,
                                   self._library.lw_model_output)
        self._bound = {}  # what the context points into must stay alive

    def _load(self, path, pairs):
        lib, made, model = self._library, ctypes.c_void_p(), ctypes.c_void_p()
        if lib.lw_options_create(ctypes.byref(made)):
            raise Error(6, "out of memory")
        try:
            for name, value in pairs:
                status = lib.lw_options_set(made, name.encode(), _text(value).encode())
                if status:
                    raise Error(status, lib.lw_options_error(made).decode(errors="replace"))
            status = lib.lw_model_load(os.fsencode(path), made, ctypes.byref(model))
        finally:
            lib.lw_options_destroy(made)
        self._model = model
        if status:
            text = lib.lw_model_error(model).decode(errors="replace")
            if text.startswith("symbolic dimensions"):
                text += "; give them as dims={name: extent} or shapes={input: (2, 3, ...)}"
            raise Error(status, text)

    def __repr__(self):
        ports = [", ".join(f"{i.name}: {i.dtype}{list(i.shape)}" for i in infos)
                 for infos in (self.inputs, self.outputs)]
        where = f"on {self.device}" if self._context else "closed"
        return f"<lawson.Session {self.path!r} {where}: ({ports[0]}) -> ({ports[1]})>"

    def _require_open(self):
        if not self._context:
            raise Error(_USAGE, "the session is closed")

    def _create_context(self):
        context = ctypes.c_void_p()
        status = self._library.lw_context_create(self._model, ctypes.byref(context))
        self._context = context
        self._check(status)

    def _check(self, status):
        if status:
            raise Error(status, self._library.lw_context_error(self._context)
                        .decode(errors="replace"))

    def _infos(self, count, get):
        infos = []
        for i in range(count(self._model)):
            info = get(self._model, i).contents
            infos.append(TensorInfo((info.name or b"").decode(errors="replace"),
                                    DTYPES[info.dtype], tuple(info.dims[:info.rank])))
        return infos

    @property
    def device(self):
        """ "cpu", "cuda:0", "null": where the model runs."""
        self._require_open()
        return self._library.lw_model_device(self._model).decode()

    def _bind(self, index, array, is_input):
        self._require_open()
        infos = self.inputs if is_input else self.outputs
        try:
            index = operator.index(index)
        except TypeError:
            known = ", ".join(f"{n}: {info.name}" for n, info in enumerate(infos))
            raise TypeError(f"an {'input' if is_input else 'output'} is bound by its number, not "
                            f"by {index!r}; the model has {known}") from None
        if not 0 <= index < len(infos):
            raise Error(_USAGE, f"there is no {'input' if is_input else 'output'} {index}, "
                        f"the model has {len(infos)}")
        view = _tensor.view(array)
        view.retype(infos[index].dtype)
        if not is_input and not view.writable:
            raise Error(_USAGE, f"output {index}: the array is read-only")
        if view.memory == _tensor.DEVICE:
            wanted = self.device if self.device.startswith("cuda") else None
            if wanted != f"cuda:{view.device_index}":
                raise Error(_USAGE, f"{'input' if is_input else 'output'} {index} lies on "
                            f"cuda:{view.device_index}, the model runs on {self.device}")
        bind = (self._library.lw_context_bind_input if is_input
                else self._library.lw_context_bind_output)
        self._check(bind(self._context, index, ctypes.byref(view.tensor)))
        self._bound[is_input, index] = view

    def bind(self, index, array):
        """Input |index| is read from |array| (DLPack or NumPy) at every run, without a copy."""
        self._bind(index, array, True)

    def bind_output(self, index, array):
        """Output |index| is written to |array| at every run, without a copy."""
        self._bind(index, array, False)

    def enqueue(self, stream=0):
        """Puts one run into the CUDA stream at pointer |stream| (0: the legacy default stream) and
        returns. Everything must be bound to memory of the device. On a CPU it runs and returns."""
        self._require_open()
        self._check(self._library.lw_context_enqueue(self._context, stream))

    def run_bound(self):
        """One run with what is bound; waits for its end."""
        self._require_open()
        self._check(self._library.lw_context_run(self._context))

    def run(self, inputs):
        """Runs on |inputs|, a list in the model's order; returns a list of NumPy arrays."""
        self._require_open()
        if not isinstance(inputs, collections.abc.Sequence) or isinstance(inputs, (str, bytes)):
            raise TypeError("run() takes a list of arrays in the model's order ("
                            + ", ".join(info.name for info in self.inputs)
                            + f"), not {type(inputs).__name__}")
        if len(inputs) != len(self.inputs):
            raise Error(_USAGE, f"{len(inputs)} inputs were given, the model has "
                        f"{len(self.inputs)}")
        results = [_tensor.numpy_empty(info.dtype, info.shape) for info in self.outputs]
        kept = dict(self._bound)
        for index, array in enumerate(inputs):
            self.bind(index, array)
        for index, array in enumerate(results):
            self.bind_output(index, array)
        self.run_bound()
        # What the caller had bound before is bound again; the rest stays with this run's arrays,
        # which live as long as the context points to them.
        for (is_input, index), view in kept.items():
            self._bind(index, view.owner[0] if isinstance(view.owner, tuple) else view.owner,
                       is_input)
        return results

    def stats(self):
        """Counts of one run and facts of the compilation: kernels, library_calls, copies,
        compile_s ..."""
        self._require_open()
        stats = StatsC()
        self._library.lw_context_stats(self._context, ctypes.byref(stats))
        return {name: getattr(stats, name) for name, _ in StatsC._fields_}

    def explain(self):
        """What was fused, what was not and why (docs/explain.md)."""
        self._require_open()
        text = ctypes.c_char_p()
        status = self._library.lw_model_explain(self._model, ctypes.byref(text))
        if status:
            raise Error(status, "there is no report")
        return json.loads(text.value.decode(errors="replace"))

    def close(self):
        """Gives device and memory back; the session cannot be used afterwards."""
        if getattr(self, "_context", None):
            self._library.lw_context_destroy(self._context)
        if getattr(self, "_model", None):
            self._library.lw_model_destroy(self._model)
        self._context = self._model = None
        self._bound = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()
