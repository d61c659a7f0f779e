"""Arrays: those of others as lw_tensor (DLPack, NumPy's array interface), lawson's own (Tensor), and
NumPy arrays made."""
from __future__ import annotations

import ctypes
import re
from typing import Any, Callable, List, Optional, Sequence, Tuple

from . import _dlpack
from ._library import DTYPES, MAX_RANK, USAGE, Error, TensorC

HOST, DEVICE = 0, 1

_NUMPY_TYPES = {
    "|b1": "bool", "|i1": "i8", "<i2": "i16", "<i4": "i32", "<i8": "i64", "|u1": "u8",
    "<u2": "u16", "<u4": "u32", "<u8": "u64", "<f2": "f16", "<f4": "f32", "<f8": "f64",
}

# What NumPy cannot name travels as raw bits.
_RAW_BITS = {"bf16": "u16", "f8e4m3": "u8", "f8e5m2": "u8"}
_SIZES = {name: size for size, names in {
    1: ("bool", "i8", "u8", "f8e4m3", "f8e5m2"), 2: ("i16", "u16", "f16", "bf16"),
    4: ("i32", "u32", "f32"), 8: ("i64", "u64", "f64")}.items() for name in names}


def _usage(message: str) -> Error:
    return Error(USAGE, message)


def size_bytes(dtype: str, shape: Sequence[int]) -> int:
    size = _SIZES[dtype]
    for extent in shape:
        size *= extent
    return size


def packed_strides(shape: Sequence[int]) -> List[int]:
    """Strides, in elements, of a row-major array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


class View:
    """One array's memory as the library wants it. Keeps the array alive; copies nothing."""

    def __init__(self, owner: Any, data: Optional[int], dtype: str, shape: Sequence[int],
                 strides: Optional[Sequence[int]], memory: int, device_index: int = 0,
                 writable: bool = True) -> None:
        if len(shape) > MAX_RANK:
            raise _usage(f"{len(shape)} dimensions are more than {MAX_RANK}")
        self.owner, self.dtype, self.shape = owner, dtype, tuple(shape)
        self.memory, self.device_index, self.writable = memory, device_index, writable
        integers = ctypes.c_int64 * max(len(shape), 1)
        self._dims = integers(*shape)
        self._strides = integers(*strides) if strides is not None else None
        self.tensor = TensorC(data, DTYPES.index(dtype), len(shape), self._dims, self._strides,
                              memory)

    def strides(self) -> List[int]:
        """In elements."""
        if self._strides is None:
            return packed_strides(self.shape)
        return list(self._strides)[:len(self.shape)]

    def retype(self, dtype: str) -> None:
        """Raw bits become the type that the model says they are."""
        if _RAW_BITS.get(dtype) == self.dtype:
            self.dtype = dtype
            self.tensor.dtype = DTYPES.index(dtype)


class _Interface:
    """NumPy's array interface to a tensor on the host; the array made of it keeps it."""

    def __init__(self, tensor: "Tensor") -> None:
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3, "shape": tensor.shape, "data": (tensor.pointer, False),
            "typestr": _numpy_name(_RAW_BITS.get(tensor.dtype, tensor.dtype))}


class Tensor:
    """A packed array: memory on the host or on a CUDA device with a type and a shape.

    It speaks DLPack: `torch.from_dlpack(t)`, `numpy.from_dlpack(t)`, `cupy.from_dlpack(t)` share its
    memory. Sessions make them for outputs (`IOBinding.bind_output`); `Tensor.from_pointer` wraps
    memory of anybody else's.
    """

    def __init__(self, pointer: int, dtype: str, shape: Sequence[int], device: str, owner: Any,
                 download: Optional[Callable[[int, int, int], None]] = None) -> None:
        self.pointer, self.dtype, self.shape, self.device = pointer, dtype, tuple(shape), device
        self.owner, self._download = owner, download

    @classmethod
    def from_pointer(cls, pointer: int, dtype: str, shape: Sequence[int], device: str = "cpu",
                     owner: Any = None) -> "Tensor":
        """Packed memory at |pointer| on |device| ("cpu", "cuda:0"), which lives at least as long as
        the result, and which |owner| may keep alive."""
        if dtype not in _SIZES:
            raise _usage(f"there is no type '{dtype}'; there are " + ", ".join(_SIZES))
        if device != "cpu" and not re.fullmatch(r"cuda:\d+", device):
            raise _usage(f"device is 'cpu' or 'cuda:N', not '{device}'")
        return cls(pointer, dtype, shape, device, owner)

    @property
    def nbytes(self) -> int:
        return size_bytes(self.dtype, self.shape)

    def _device_number(self) -> int:
        return int(self.device.partition(":")[2] or 0)

    def view(self) -> View:
        on_host = self.device == "cpu"
        return View(self, self.pointer or None, self.dtype, self.shape,
                    packed_strides(self.shape), HOST if on_host else DEVICE,
                    0 if on_host else self._device_number())

    def __dlpack_device__(self) -> Tuple[int, int]:
        return ((_dlpack.CPU, 0) if self.device == "cpu"
                else (_dlpack.CUDA, self._device_number()))

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None,
                   copy: Optional[bool] = None) -> Any:
        """Runs are not waited for here: a run returned, or the caller orders its streams."""
        own = self.__dlpack_device__()
        if copy or (dl_device is not None and tuple(map(int, dl_device)) != own):
            raise BufferError("lawson shares memory where it lies and makes no copies")
        return _dlpack.make(self, self.pointer, self.dtype, self.shape, own, max_version)

    def numpy(self) -> Any:
        """As a NumPy array: of the same memory on the host, a copy from a device; bf16 and f8 as raw
        bits."""
        import numpy
        if self.device == "cpu":
            if self.nbytes == 0:
                return numpy_empty(self.dtype, self.shape)
            return numpy.asarray(_Interface(self))
        if self._download is None:
            raise _usage(f"memory at a pointer on {self.device} is read through DLPack")
        array = numpy_empty(self.dtype, self.shape)
        self._download(array.ctypes.data, self.pointer, self.nbytes)
        return array

    def __repr__(self) -> str:
        return f"<lawson.Tensor {self.dtype}{list(self.shape)} on {self.device}>"


def _of_dlpack(array: Any) -> View:
    kind, index = array.__dlpack_device__()
    if int(kind) in _dlpack.CUDA_DEVICES:
        capsule = array.__dlpack__(stream=-1)  # no synchronization: the caller orders the streams
    else:
        capsule = array.__dlpack__()
    tensor, writable = _dlpack.read(capsule)
    dtype = _dlpack.TYPES.get((tensor.dtype.code, tensor.dtype.bits))
    if dtype is None or tensor.dtype.lanes != 1:
        raise _usage(f"elements of DLPack type code {tensor.dtype.code}, {tensor.dtype.bits} bits "
                     "are not supported")
    if int(kind) in _dlpack.HOST_DEVICES:
        memory = HOST
    elif int(kind) in _dlpack.CUDA_DEVICES:
        memory = DEVICE
    else:
        raise _usage(f"DLPack device type {int(kind)} is not supported: host and CUDA memory are")
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    strides = ([tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides
               else packed_strides(shape))
    data = (tensor.data or 0) + tensor.byte_offset
    return View((array, capsule), data or None, dtype, shape, strides, memory, int(index),
                writable)


def _of_array_interface(array: Any) -> View:
    interface = array.__array_interface__
    dtype = _NUMPY_TYPES.get(interface["typestr"])
    if dtype is None and interface["typestr"] in ("|V2", "<V2"):  # bfloat16 of ml_dtypes
        dtype = "u16"
    if dtype is None and interface["typestr"] in ("|V1", "<V1", "<f1", "|f1"):  # its f8 types
        dtype = "u8"
    if dtype is None:
        raise _usage(f"elements of NumPy type '{interface['typestr']}' are not supported")
    shape, strides = interface["shape"], interface.get("strides")
    size = _SIZES[dtype]
    if strides is None:
        strides = packed_strides(shape)
    elif any(s % size for s, extent in zip(strides, shape) if extent > 1):
        raise _usage("strides that are no multiple of the element's size are not supported")
    else:
        strides = [s // size for s in strides]
    pointer, read_only = interface["data"]
    return View(array, pointer, dtype, shape, strides, HOST, 0, not read_only)


def view(array: Any) -> View:
    """The memory of |array|: a Tensor, or what speaks DLPack or NumPy's array interface."""
    if isinstance(array, Tensor):
        return array.view()
    if hasattr(array, "__array_interface__"):
        return _of_array_interface(array)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array)
    raise _usage(f"a {type(array).__name__} is no array: it has neither __dlpack__ nor "
                 "__array_interface__")


def _numpy_name(dtype: str) -> str:
    return next(key for key, value in _NUMPY_TYPES.items() if value == dtype)


def numpy_empty(dtype: str, shape: Sequence[int]) -> Any:
    """A NumPy array for |dtype|; bf16 and f8 as raw bits in uint16 and uint8."""
    import numpy
    return numpy.empty(shape, numpy.dtype(_numpy_name(_RAW_BITS.get(dtype, dtype))))
