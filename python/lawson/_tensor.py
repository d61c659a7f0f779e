"""Foreign arrays as lw_tensor: DLPack capsules, NumPy's array interface, and NumPy arrays made."""
import ctypes

from ._library import DTYPES, MAX_RANK, Error, TensorC

_USAGE = 2
HOST, DEVICE = 0, 1


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _DLDevice), ("ndim", ctypes.c_int32),
                ("dtype", _DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_READ_ONLY = 1  # flag of versioned tensors

# DLPack's device types whose memory the host, or a CUDA device, reads as it is.
_HOST_DEVICES = {1, 3, 11}  # CPU, CUDA pinned, ROCm pinned
_CUDA_DEVICES = {2, 13}     # CUDA, CUDA managed

# (type code, bits) of DLPack -> lw_dtype's name. Codes 7 and up: DLPack 1.1.
_DLPACK_TYPES = {
    (0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64",
    (1, 8): "u8", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64",
    (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (6, 8): "bool",
    (10, 8): "f8e4m3", (12, 8): "f8e5m2",
}

_NUMPY_TYPES = {
    "|b1": "bool", "|i1": "i8", "<i2": "i16", "<i4": "i32", "<i8": "i64", "|u1": "u8",
    "<u2": "u16", "<u4": "u32", "<u8": "u64", "<f2": "f16", "<f4": "f32", "<f8": "f64",
}

# What NumPy cannot name travels as raw bits.
_RAW_BITS = {"bf16": "u16", "f8e4m3": "u8", "f8e5m2": "u8"}
_SIZES = {name: size for size, names in {
    1: ("bool", "i8", "u8", "f8e4m3", "f8e5m2"), 2: ("i16", "u16", "f16", "bf16"),
    4: ("i32", "u32", "f32"), 8: ("i64", "u64", "f64")}.items() for name in names}

_capsule_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is_valid.restype = ctypes.c_int
_capsule_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _usage(message):
    return Error(_USAGE, message)


class View:
    """One array's memory as the library wants it. Keeps the array alive; copies nothing."""

    def __init__(self, owner, data, dtype, shape, strides, memory, device_index=0, writable=True):
        if len(shape) > MAX_RANK:
            raise _usage(f"{len(shape)} dimensions are more than {MAX_RANK}")
        self.owner, self.dtype, self.shape = owner, dtype, tuple(shape)
        self.memory, self.device_index, self.writable = memory, device_index, writable
        integers = ctypes.c_int64 * max(len(shape), 1)
        self._dims = integers(*shape)
        self._strides = integers(*strides) if strides is not None else None
        self.tensor = TensorC(data, DTYPES.index(dtype), len(shape), self._dims, self._strides,
                              memory)

    def retype(self, dtype):
        """Raw bits become the type that the model says they are."""
        if _RAW_BITS.get(dtype) == self.dtype:
            self.dtype = dtype
            self.tensor.dtype = DTYPES.index(dtype)


def _of_dlpack(array):
    kind, index = array.__dlpack_device__()
    if int(kind) in _CUDA_DEVICES:
        capsule = array.__dlpack__(stream=-1)  # no synchronization: the caller orders the streams
    else:
        capsule = array.__dlpack__()
    writable = True
    if _capsule_is_valid(capsule, b"dltensor"):
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    elif _capsule_is_valid(capsule, b"dltensor_versioned"):
        managed = _DLManagedTensorVersioned.from_address(
            _capsule_pointer(capsule, b"dltensor_versioned"))
        writable = not managed.flags & _READ_ONLY
        tensor = managed.tensor
    else:
        raise _usage("__dlpack__ gave no DLPack capsule that this version knows")
    dtype = _DLPACK_TYPES.get((tensor.dtype.code, tensor.dtype.bits))
    if dtype is None or tensor.dtype.lanes != 1:
        raise _usage(f"elements of DLPack type code {tensor.dtype.code}, {tensor.dtype.bits} bits "
                     "are not supported")
    if int(kind) in _HOST_DEVICES:
        memory = HOST
    elif int(kind) in _CUDA_DEVICES:
        memory = DEVICE
    else:
        raise _usage(f"DLPack device type {int(kind)} is not supported: host and CUDA memory are")
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    strides = [tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides else None
    if strides is None:
        strides = packed_strides(shape)
    data = (tensor.data or 0) + tensor.byte_offset
    return View((array, capsule), data or None, dtype, shape, strides, memory, int(index),
                writable)


def packed_strides(shape):
    """Strides, in elements, of a row-major array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


def _of_array_interface(array):
    interface = array.__array_interface__
    dtype = _NUMPY_TYPES.get(interface["typestr"])
    if dtype is None and interface["typestr"] in ("|V2", "<V2"):  # bfloat16 of ml_dtypes
        dtype = "u16"
    if dtype is None and interface["typestr"] == "|V1":
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


def view(array):
    """The memory of |array|, which speaks DLPack or NumPy's array interface."""
    if hasattr(array, "__array_interface__"):
        return _of_array_interface(array)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array)
    raise _usage(f"a {type(array).__name__} is no array: it has neither __dlpack__ nor "
                 "__array_interface__")


def numpy_empty(dtype, shape):
    """A NumPy array for |dtype|; bf16 and f8 as raw bits in uint16 and uint8."""
    import numpy
    name = _RAW_BITS.get(dtype, dtype)
    typestr = next(key for key, value in _NUMPY_TYPES.items() if value == name)
    return numpy.empty(shape, numpy.dtype(typestr))
