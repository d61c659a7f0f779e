"""The C library: finding it, and its functions and structures as ctypes knows them
(lawson/lawson.h, and from lawson/tools.h what a model is without compiling it and memory)."""
from __future__ import annotations

import ctypes
import glob
import os
from typing import Iterator, Optional

MAX_RANK = 12

STATUS_NAMES = {1: "check failed", 2: "usage", 3: "model invalid", 4: "unsupported",
                5: "device failed", 6: "out of memory", 7: "not found", 8: "io", 9: "internal",
                10: "device lost"}
USAGE, MODEL_INVALID, UNSUPPORTED, OUT_OF_MEMORY = 2, 3, 4, 6

# Numbers of lw_dtype.
DTYPES = ["none", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16",
          "f32", "f64", "f8e4m3", "f8e5m2"]


class Error(Exception):
    """A call of the library failed. `status` is its lw_status, which is also the command line's exit
    code from 1 to 6."""

    status: int

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message or STATUS_NAMES.get(status, f"status {status}"))
        self.status = status


class TensorInfoC(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
                ("dims", ctypes.c_int64 * MAX_RANK)]


class TensorC(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
                ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("memory", ctypes.c_int)]


class StatsC(ctypes.Structure):
    _fields_ = [*[(name, ctypes.c_uint64) for name in (
                    "kernels", "library_calls", "copies", "fills", "staging_copies", "arena_bytes",
                    "weight_bytes", "traffic_bytes", "kernels_built", "kernels_cached")],
                ("compile_s", ctypes.c_double), ("last_device_us", ctypes.c_double),
                *[(name, ctypes.c_uint64) for name in ("groups_split", "lanes", "waits")],
                ("last_launch_us", ctypes.c_double), ("live_bytes", ctypes.c_uint64)]


class PortC(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("name", "type", "shape")]


class SummaryC(ctypes.Structure):
    _fields_ = [("producer", ctypes.c_char_p), ("producer_version", ctypes.c_char_p),
                ("graph_name", ctypes.c_char_p), ("ir_version", ctypes.c_int64),
                ("opsets", ctypes.c_void_p),
                ("inputs", ctypes.POINTER(PortC)), ("outputs", ctypes.POINTER(PortC)),
                ("operators", ctypes.c_void_p), ("unsupported", ctypes.c_void_p),
                *[(name, ctypes.c_uint32) for name in (
                    "opset_count", "input_count", "output_count", "operator_count",
                    "unsupported_count", "function_count", "node_count", "initializer_count")],
                ("initializer_bytes", ctypes.c_uint64), ("status", ctypes.c_int),
                ("problem", ctypes.c_char_p)]


class ShapeStatsC(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("compiled", "kept", "ready", "made")]


class ReasonC(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 2048)]


_VOID_P, _STR, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_OUT = ctypes.POINTER(ctypes.c_void_p)
_FUNCTIONS = {
    "lw_version": (_STR, []),
    "lw_options_create": (ctypes.c_int, [_OUT]),
    "lw_options_destroy": (None, [_VOID_P]),
    "lw_options_set": (ctypes.c_int, [_VOID_P, _STR, _STR]),
    "lw_options_error": (_STR, [_VOID_P]),
    "lw_model_load": (ctypes.c_int, [_STR, _VOID_P, _OUT]),
    "lw_model_destroy": (None, [_VOID_P]),
    "lw_model_error": (_STR, [_VOID_P]),
    "lw_model_input_count": (_SIZE, [_VOID_P]),
    "lw_model_output_count": (_SIZE, [_VOID_P]),
    "lw_model_input": (ctypes.POINTER(TensorInfoC), [_VOID_P, _SIZE]),
    "lw_model_output": (ctypes.POINTER(TensorInfoC), [_VOID_P, _SIZE]),
    "lw_model_output_count_of": (ctypes.c_bool, [_VOID_P, _SIZE, ctypes.POINTER(_SIZE),
                                                 ctypes.POINTER(ctypes.c_int)]),
    "lw_model_device": (_STR, [_VOID_P]),
    "lw_model_explain": (ctypes.c_int, [_VOID_P, ctypes.POINTER(_STR)]),
    "lw_context_create": (ctypes.c_int, [_VOID_P, _OUT]),
    "lw_context_destroy": (None, [_VOID_P]),
    "lw_context_bind_input": (ctypes.c_int, [_VOID_P, _SIZE, ctypes.POINTER(TensorC)]),
    "lw_context_bind_output": (ctypes.c_int, [_VOID_P, _SIZE, ctypes.POINTER(TensorC)]),
    "lw_context_output_dims": (ctypes.c_int, [_VOID_P, _SIZE, ctypes.POINTER(ctypes.c_int),
                                              ctypes.POINTER(ctypes.c_int64)]),
    "lw_context_shape_stats": (None, [_VOID_P, ctypes.POINTER(ShapeStatsC)]),
    "lw_context_run": (ctypes.c_int, [_VOID_P]),
    "lw_context_enqueue": (ctypes.c_int, [_VOID_P, _VOID_P]),
    "lw_context_error": (_STR, [_VOID_P]),
    "lw_context_stats": (None, [_VOID_P, ctypes.POINTER(StatsC)]),
    "lw_tools_inspect": (ctypes.c_int, [_STR, _VOID_P, ctypes.POINTER(ctypes.POINTER(SummaryC)),
                                        ctypes.POINTER(ReasonC)]),
    "lw_tools_summary_destroy": (None, [ctypes.POINTER(SummaryC)]),
    "lw_tools_device_open": (ctypes.c_int, [_VOID_P, _OUT, ctypes.POINTER(ReasonC)]),
    "lw_tools_device_close": (None, [_VOID_P]),
    "lw_tools_alloc": (ctypes.c_int, [_VOID_P, _SIZE, _OUT]),
    "lw_tools_free": (None, [_VOID_P, _VOID_P]),
    "lw_tools_download": (ctypes.c_int, [_VOID_P, _VOID_P, _VOID_P, _SIZE]),
}

_library: Optional[ctypes.CDLL] = None


def _candidates() -> Iterator[str]:
    """Paths and names to try, best first."""
    given = os.environ.get("LAWSON_LIBRARY")
    if given:
        yield given
        return
    package = os.path.dirname(os.path.abspath(__file__))
    yield from sorted(glob.glob(os.path.join(package, "liblawson.so*")), key=len)
    checkout = os.path.dirname(os.path.dirname(package))
    built = glob.glob(os.path.join(checkout, "build", "*", "liblawson.so"))
    plain = os.path.join(checkout, "build", "release", "liblawson.so")
    # A sanitizer's build cannot be loaded into a process that lacks it: release first.
    yield from sorted(built, key=lambda path: (path != plain, -os.path.getmtime(path)))
    yield from ("liblawson.so.0", "liblawson.so")


def _open() -> ctypes.CDLL:
    problems = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            problems.append(str(error))
    raise Error(5, "liblawson.so was not found; set LAWSON_LIBRARY to its path ("
                + "; ".join(problems[:3]) + ")")


def library() -> ctypes.CDLL:
    """The loaded library, its functions declared."""
    global _library
    if _library is None:
        opened = _open()
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(opened, name)
            function.restype, function.argtypes = result, arguments
        _library = opened
    return _library


def text(raw: Optional[bytes]) -> str:
    return (raw or b"").decode(errors="replace")


def version() -> str:
    """The library's version, "0.1.0"."""
    return text(library().lw_version())
