"""Small ONNX files and .npy files from nothing but the standard library, for tests of the command
line and of the Python package. Field numbers are those of onnx.proto."""
import struct

F32, U8, I32, I64, BOOL, F16, F64, BF16 = 1, 2, 6, 7, 9, 10, 11, 16
_NPY = {F32: ("<f4", "f"), U8: ("|u1", "B"), I32: ("<i4", "i"), I64: ("<i8", "q"),
        F64: ("<f8", "d"), BF16: ("<u2", "H")}


def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def chunk(field, payload):
    if isinstance(payload, str):
        payload = payload.encode()
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def value_info(name, elem_type, dims):
    """|dims|: numbers, or names of symbolic dimensions."""
    shape = b"".join(chunk(1, chunk(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return chunk(1, name) + chunk(2, chunk(1, number(1, elem_type) + chunk(2, shape)))


def attribute(name, value):
    """An integer, a float, a string or a list of integers."""
    if isinstance(value, float):
        return chunk(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, str):
        return chunk(1, name) + chunk(4, value) + number(20, 3)
    if isinstance(value, list):
        return chunk(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)
    return chunk(1, name) + number(3, value) + number(20, 2)


def node(op, inputs, outputs, name="", **attributes):
    return (b"".join(chunk(1, i) for i in inputs) + b"".join(chunk(2, o) for o in outputs)
            + chunk(3, name or f"n_{outputs[0]}") + chunk(4, op)
            + b"".join(chunk(5, attribute(k, v)) for k, v in attributes.items()))


def tensor(name, elem_type, dims, values):
    raw = struct.pack(f"<{len(values)}{_NPY[elem_type][1]}", *values)
    return (b"".join(number(1, d) for d in dims) + number(2, elem_type) + chunk(8, name)
            + chunk(9, raw))


def model(nodes, inputs, outputs, initializers=(), opset=17):
    """|inputs|, |outputs|: (name, type, dims); |initializers|: (name, type, dims, values)."""
    graph = (b"".join(chunk(1, n) for n in nodes) + chunk(2, "g")
             + b"".join(chunk(5, tensor(*i)) for i in initializers)
             + b"".join(chunk(11, value_info(*i)) for i in inputs)
             + b"".join(chunk(12, value_info(*o)) for o in outputs))
    return number(1, 8) + chunk(2, "test") + chunk(7, graph) + chunk(8, number(2, opset))


def npy(elem_type, dims, values):
    """Bytes of a .npy file; BF16 values are raw bits."""
    descr, letter = _NPY[elem_type]
    shape = "(" + "".join(f"{d}, " for d in dims) + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + struct.pack(f"<{len(values)}{letter}", *values))


def read_npy(path):
    """(descr, shape, values) of a file that `npy` or lawson wrote."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + length].decode(), {"__builtins__": {}})  # a literal of our own
    letter = {"f2": "e", "b1": "?"}.get(header["descr"][1:]) or dict(
        (d[1:], l) for d, l in _NPY.values())[header["descr"][1:]]
    count = 1
    for d in header["shape"]:
        count *= d
    return header["descr"], header["shape"], list(
        struct.unpack(f"<{count}{letter}", data[10 + length:]))
