"""DLPack by ctypes: reading the capsules of others and making our own (DLPack 1.1, and 0.8 for
consumers that know no versions)."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional, Sequence, Tuple

from ._library import USAGE, Error


class DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32),
                ("dtype", DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", _DELETER)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager", ctypes.c_void_p), ("deleter", _DELETER),
                ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


READ_ONLY = 1  # flag of versioned tensors
CPU, CUDA = 1, 2

# DLPack's device types whose memory the host, or a CUDA device, reads as it is.
HOST_DEVICES = {1, 3, 11}  # CPU, CUDA pinned, ROCm pinned
CUDA_DEVICES = {2, 13}     # CUDA, CUDA managed

# (type code, bits) of DLPack -> lw_dtype's name. Codes 7 and up: DLPack 1.1.
TYPES: Dict[Tuple[int, int], str] = {
    (0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64",
    (1, 8): "u8", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64",
    (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (6, 8): "bool",
    (10, 8): "f8e4m3", (12, 8): "f8e5m2",
}
_CODES = {name: code for code, name in TYPES.items()}

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"


def _function(name: str, result: Any, *arguments: Any) -> Any:
    # A prototype of its own: ctypes.pythonapi's functions are shared with all other users.
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_get_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object,
                         ctypes.c_char_p)
_new = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p,
                 ctypes.c_void_p)
# In a capsule's destructor its reference count is 0: it must not become a Python object again.
_dying_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_dying_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p,
                           ctypes.c_char_p)

# ---- reading ------------------------------------------------------------------------------------


def read(capsule: Any) -> Tuple[DLTensor, bool]:
    """A capsule's tensor, and whether it may be written. Both live as long as the capsule, which is
    not consumed."""
    if _is_valid(capsule, _PLAIN):
        return _Managed.from_address(_get_pointer(capsule, _PLAIN)).tensor, True
    if _is_valid(capsule, _VERSIONED):
        managed = _ManagedVersioned.from_address(_get_pointer(capsule, _VERSIONED))
        return managed.tensor, not managed.flags & READ_ONLY
    raise Error(USAGE, "__dlpack__ gave no DLPack capsule that this version knows")


# ---- making -------------------------------------------------------------------------------------

# Address of a managed tensor -> it, its arrays and the owner of its memory, until its consumer (or,
# unconsumed, its capsule) lets go.
_alive: Dict[int, Tuple[Any, ...]] = {}


def _let_go(address: int) -> None:
    _alive.pop(address, None)


_deleter = _DELETER(_let_go)


def _drop_capsule(capsule: int) -> None:
    for name in (_PLAIN, _VERSIONED):  # a consumer renames what it takes over
        if _dying_is_valid(capsule, name):
            _let_go(_dying_pointer(capsule, name))


_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop_capsule)
for _callback in (_deleter, _destructor):  # consumers may outlive this module at exit
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def make(owner: Any, pointer: int, dtype: str, shape: Sequence[int], device: Tuple[int, int],
         version: Optional[Tuple[int, int]], writable: bool = True) -> Any:
    """A capsule for packed memory that |owner| keeps alive. |version|: the newest that the consumer
    knows."""
    integers = ctypes.c_int64 * max(len(shape), 1)
    dims, strides, step = integers(*shape), integers(), 1
    for d in reversed(range(len(shape))):
        strides[d], step = step, step * max(shape[d], 1)
    code, bits = _CODES[dtype]
    tensor = DLTensor(pointer or None, DLDevice(*device), len(shape), DLDataType(code, bits, 1),
                      ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64)),
                      ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)), 0)
    managed: Any
    if version is not None and version[0] >= 1:
        managed, name = _ManagedVersioned(1, 1, None, _deleter, 0 if writable else READ_ONLY,
                                          tensor), _VERSIONED
    elif writable:
        managed, name = _Managed(tensor, None, _deleter), _PLAIN
    else:
        raise Error(USAGE, "the tensor is read-only, which DLPack before 1.0 cannot say")
    address = ctypes.addressof(managed)
    _alive[address] = (managed, dims, strides, owner)
    return _new(address, name, ctypes.cast(_destructor, ctypes.c_void_p))
