#!/usr/bin/env python3
"""Writes interp_expected.h: what numpy and Python's math say about the operators, for test_interp_ops.c.

usage: interp_expected.py > interp_expected.h
"""
import math
import numpy as np

rng = np.random.default_rng(20240607)
inf, nan = math.inf, math.nan


def number(x):
    x = float(x)
    if math.isnan(x):
        return "NAN"
    if math.isinf(x):
        return "-INFINITY" if x < 0 else "INFINITY"
    return x.hex()


def safe(f, *a):
    """C semantics on top of Python's math: domain errors are NaN, poles and overflows infinities."""
    try:
        return f(*a)
    except OverflowError:
        return inf
    except (ValueError, ZeroDivisionError):
        return nan


def arrays(name, values, ctype="double", fmt=number):
    print(f"static const {ctype} {name}[] = {{")
    row = []
    for v in values:
        row.append(fmt(v))
        if len(", ".join(row)) > 80:
            print("    " + ", ".join(row) + ",")
            row = []
    if row:
        print("    " + ", ".join(row) + ",")
    print("};")


# ---- scalar functions on floats ----------------------------------------------------------------------------------
SPECIAL = [0.0, -0.0, 1.0, -1.0, inf, -inf, nan]
PLAIN = [0.5, -0.5, 2.5, -2.5, 3.5, 0.3, -0.7, 7.25, -11.125, 1e-5, 88.0, -103.0, 1e6]
UNIT = [0.25, -0.25, 0.9999, -0.9999]
with np.errstate(all="ignore"):
    unary = {
        "NEG": lambda x: -x, "ABS": abs, "SIGN": np.sign, "FLOOR": np.floor, "CEIL": np.ceil, "ROUND": np.rint,
        "TRUNC": np.trunc, "RECIP": lambda x: np.float64(1) / np.float64(x), "SQRT": np.sqrt,
        "RSQRT": lambda x: np.float64(1) / np.sqrt(np.float64(x)), "EXP": np.exp, "EXPM1": np.expm1, "LOG": np.log,
        "LOG1P": np.log1p, "ERF": math.erf, "TANH": np.tanh,
        "SIGMOID": lambda x: np.float64(1) / (np.float64(1) + np.exp(-np.float64(x))) if x > -700
        else np.exp(np.float64(x)),
        "SIN": np.sin, "COS": np.cos, "TAN": np.tan, "ASIN": np.arcsin, "ACOS": np.arccos, "ATAN": np.arctan,
        "SINH": np.sinh, "COSH": np.cosh, "ASINH": np.arcsinh, "ACOSH": np.arccosh, "ATANH": np.arctanh,
        "ISNAN": np.isnan, "ISINF": np.isinf,
    }
    binary = {
        "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide, "MOD": np.mod, "REM": np.fmod,
        "MIN": np.minimum, "MAX": np.maximum, "POW": np.power, "ATAN2": np.arctan2, "EQ": np.equal,
        "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
    }
    print("/* interp_expected.h: expected values from numpy; made by interp_expected.py. */")
    print("#include <math.h>\n")
    xs = SPECIAL + PLAIN + UNIT
    arrays("unary_x", xs)
    print("typedef struct unary_row { lw_fn fn; double want[%d]; } unary_row;" % len(xs))
    print("static const unary_row unary_rows[] = {")
    for name, f in unary.items():
        print(f"    {{LW_FN_{name}, {{" + ", ".join(number(safe(f, x)) for x in xs) + "}},")
    print("};")
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    pairs += [(5.5, 2.0), (-5.5, 2.0), (5.5, -2.0), (-5.5, -2.0), (2.0, 0.5), (0.3, -1.7), (-2.0, 3.0), (-2.0, 2.0),
              (1e5, 3.25), (7.0, 7.0), (-7.0, 7.0), (0.0, 2.5), (6.0, 3.0), (1.5, 0.1)]
    arrays("binary_a", [a for a, _ in pairs])
    arrays("binary_b", [b for _, b in pairs])
    print("typedef struct binary_row { lw_fn fn; double want[%d]; } binary_row;" % len(pairs))
    print("static const binary_row binary_rows[] = {")
    for name, f in binary.items():
        print(f"    {{LW_FN_{name}, {{" + ", ".join(number(f(np.float64(a), np.float64(b))) for a, b in pairs) + "}},")
    print("};")

    # ---- integers ------------------------------------------------------------------------------------------------
    types = {"I8": np.int8, "U8": np.uint8, "I16": np.int16, "U16": np.uint16, "I32": np.int32, "U32": np.uint32,
             "I64": np.int64, "U64": np.uint64}

    def as_i64(v):
        v = int(v)
        v = v - (1 << 64) if v >= 1 << 63 else v
        return "INT64_MIN" if v == -(1 << 63) else f"INT64_C({v})"

    ints = {
        "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MIN": np.minimum, "MAX": np.maximum,
        "BITAND": np.bitwise_and, "BITOR": np.bitwise_or, "BITXOR": np.bitwise_xor, "EQ": np.equal, "LT": np.less,
        "GE": np.greater_equal, "NEG": lambda a, b: np.negative(a), "ABS": lambda a, b: np.abs(a),
        "BITNOT": lambda a, b: np.invert(a), "SIGN": lambda a, b: np.sign(a),
    }

    def trunc_div(a, b):
        q = abs(int(a)) // abs(int(b))
        return q if (a < 0) == (b < 0) else -q

    print("typedef struct int_row { lw_fn fn; lw_dtype dtype; int64_t want[8]; } int_row;")
    rows = []
    for tn, t in types.items():
        lim = np.iinfo(t)
        a = np.array([lim.min, lim.max, 7, 100, lim.max, 3, lim.min, 90], dtype=t)
        b = np.array([1, 1, 3, 100, lim.max, 5, lim.max, 2], dtype=t)
        print(f"static const int64_t int_a_{tn}[] = {{" + ", ".join(as_i64(v) for v in a) + "};")
        print(f"static const int64_t int_b_{tn}[] = {{" + ", ".join(as_i64(v) for v in b) + "};")
        for fn, f in ints.items():
            rows.append((fn, tn, [as_i64(v) for v in f(a, b)]))
        rows.append(("DIV", tn, [as_i64(trunc_div(int(p), int(q))) for p, q in zip(a, b)]))
        rows.append(("MOD", tn, [as_i64(int(p) % int(q)) for p, q in zip(a, b)]))
        rows.append(("REM", tn, [as_i64(math.fmod(int(p), int(q)) if abs(int(p)) < 2**52 and abs(int(q)) < 2**52 else
                                        int(p) - trunc_div(int(p), int(q)) * int(q)) for p, q in zip(a, b)]))
        small = np.array([2, 3, 0, 5, 7, 1, 2, 3], dtype=t)
        rows.append(("POW", tn, [as_i64(v) for v in np.array([pow(int(p), int(e), 1 << 64) for p, e in zip(a, small)],
                                                                 dtype=np.uint64).astype(t)]))
    print("static const int64_t int_pow_b[] = {2, 3, 0, 5, 7, 1, 2, 3};")
    print("static const int_row int_rows[] = {")
    for fn, tn, want in rows:
        print(f"    {{LW_FN_{fn}, LW_DTYPE_{tn}, {{" + ", ".join(want) + "}},")
    print("};")
    print("typedef struct int_operands { lw_dtype dtype; const int64_t *a, *b; } int_operands;")
    print("static const int_operands int_operand_rows[] = {")
    for tn in types:
        print(f"    {{LW_DTYPE_{tn}, int_a_{tn}, int_b_{tn}}},")
    print("};")

# ---- movements and sums --------------------------------------------------------------------------------------------


def conv(x, w, stride, dil, lo, hi, group):
    """Convolution by its definition over any number of spatial dims."""
    n, c = x.shape[:2]
    m = w.shape[0]
    s = x.ndim - 2
    out = [(x.shape[2 + d] + lo[d] + hi[d] - dil[d] * (w.shape[2 + d] - 1) - 1) // stride[d] + 1 for d in range(s)]
    xp = np.pad(x, [(0, 0), (0, 0)] + [(lo[d], hi[d]) for d in range(s)])
    y = np.zeros((n, m, *out))
    for b in range(n):
        for o in range(m):
            g = o // (m // group)
            for pos in np.ndindex(*out):
                for ci in range(c // group):
                    for t in np.ndindex(*w.shape[2:]):
                        at = tuple(pos[d] * stride[d] + t[d] * dil[d] for d in range(s))
                        y[(b, o) + pos] += xp[(b, g * (c // group) + ci) + at] * w[(o, ci) + t]
    return y


def conv_transposed(x, w, stride, dil, lo, hi, group):
    """Every x element spreads its kernel over the result; pads crop."""
    n, c = x.shape[:2]
    mg = w.shape[1]
    s = x.ndim - 2
    full = [(x.shape[2 + d] - 1) * stride[d] + dil[d] * (w.shape[2 + d] - 1) + 1 for d in range(s)]
    y = np.zeros((n, mg * group, *full))
    for b in range(n):
        for ci in range(c):
            g = ci // (c // group)
            for o in range(mg):
                for pos in np.ndindex(*x.shape[2:]):
                    for t in np.ndindex(*w.shape[2:]):
                        at = tuple(pos[d] * stride[d] + t[d] * dil[d] for d in range(s))
                        y[(b, g * mg + o) + at] += x[(b, ci) + pos] * w[(ci, o) + t]
    crop = tuple(slice(lo[d], full[d] - hi[d]) for d in range(s))
    return y[(slice(None), slice(None)) + crop]


def data(*shape):
    return rng.standard_normal(shape).astype(np.float32).astype(np.float64)


def emit(name, *arrs):
    for i, a in enumerate(arrs):
        arrays(f"{name}_{'want' if i == len(arrs) - 1 else 'in' + str(i)}", np.asarray(a).ravel())


cube = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
emit("permute", cube, cube.transpose(2, 0, 1))
emit("expand", np.arange(3.0).reshape(1, 3, 1), np.broadcast_to(np.arange(3.0).reshape(1, 3, 1), (2, 3, 4)))
emit("slice", cube, cube[:, ::-2, 1:4:2])
emit("pad", cube, np.pad(cube, [(0, 1), (2, 0), (1, 1)], constant_values=-7))
line = np.arange(40, dtype=np.float64).reshape(4, 10)
win = np.zeros((2, 4, 3, 2))
for i, j, k, l in np.ndindex(2, 4, 3, 2):
    win[i, j, k, l] = line[i * 1 + l * 2, j * 2 + k * 1]
emit("window", line, win)
emit("concat", cube, cube[:, :1] + 100, cube[:, :2] + 200,
     np.concatenate([cube, cube[:, :1] + 100, cube[:, :2] + 200], axis=1))
r = data(2, 3, 4)
emit("sum01", r, r.sum(axis=(0, 1)))
emit("prod1", r, r.prod(axis=1))
emit("max02", r, r.max(axis=(0, 2)))
emit("min2", r, r.min(axis=2))
a, b = data(2, 3, 5), data(2, 5, 4)
emit("dot", a, b, a @ b)
x, w = data(2, 4, 7, 6), data(6, 2, 3, 2)
emit("conv2", x, w, conv(x, w, (2, 1), (1, 2), (1, 0), (2, 1), 2))
x, w = data(1, 3, 9), data(2, 3, 4)
emit("conv1", x, w, conv(x, w, (3,), (1,), (2,), (0,), 1))
x, w = data(1, 2, 3, 4, 5), data(3, 2, 2, 1, 3)
emit("conv3", x, w, conv(x, w, (1, 2, 1), (1, 1, 2), (1, 0, 1), (0, 0, 1), 1))
x, w = data(2, 4, 3, 4), data(4, 3, 3, 2)
emit("convt", x, w, conv_transposed(x, w, (2, 3), (1, 2), (1, 0), (0, 1), 2))
table = data(5, 3, 4)
ids = np.array([[4, -1], [0, 2]])
emit("gather", table, table[ids])
