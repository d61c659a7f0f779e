#!/usr/bin/env python3
"""Compares lawson with ONNX Runtime on the CPU: products of 96^3 .. 1024^3, and models with inputs.

Both run in one process in turn, through their C interfaces, pinned to the same cores; the table has
the shortest run of each (bench/ort.c). Set up once:

    python3 -m venv build/bench && build/bench/bin/pip install -r bench/requirements.txt
    build/bench/bin/python bench/ort.py --program build/release/bench_ort

A folder with model.onnx, in_0.npy ... is a model: --models FOLDER ... (default: ../shared/models/*).
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = [96, 128, 192, 256, 384, 512, 768, 1024]


def product(folder, size, constant):
    """a [n, n] times b [n, n]; b a weight or an input."""
    rng = numpy.random.default_rng(size)
    a, b = (rng.standard_normal((size, size), dtype=numpy.float32) for _ in range(2))
    tensor = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["c"])], "product",
        [tensor("a")] + ([] if constant else [tensor("b")]), [tensor("c")],
        [numpy_helper.from_array(b, "b")] if constant else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    for i, array in enumerate([a] if constant else [a, b]):
        numpy.save(folder / f"in_{i}.npy", array)
    return folder


def run(args, folder):
    """lawson and ONNX Runtime in microseconds, difference; or a message."""
    library = next(pathlib.Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"))
    inputs = sorted(folder.glob("in_*.npy"), key=lambda p: int(p.stem[3:]))
    command = ["taskset", "-c", args.cores, args.program, library, args.threads, args.seconds,
               folder / "model.onnx", *inputs]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"ends with {done.returncode}"])[-1]
    return [float(x) for x in done.stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/bench_ort")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--cores", default="0,1", help="for taskset -c (default: 0,1)")
    parser.add_argument("--seconds", default="2", help="per row (default: 2)")
    parser.add_argument("--models", nargs="*", type=pathlib.Path)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES, help="of products; none: no products")
    args = parser.parse_args()
    models = args.models
    if models is None:
        models = sorted(p for p in (ROOT.parent / "shared/models").glob("*") if p.is_dir())
    worst = 0
    with tempfile.TemporaryDirectory() as temporary:
        rows = []
        for size in args.sizes:
            for constant in (True, False):
                name = f"product {size}, {'weight' if constant else 'input'}"
                rows.append((name, product(pathlib.Path(temporary) / name, size, constant)))
        rows += [(m.name, m) for m in models]
        print(f"ONNX Runtime {onnxruntime.__version__}, {args.threads} threads on cores {args.cores}\n")
        print("| | lawson us | ONNX Runtime us | ratio | difference |\n|---|---|---|---|---|", flush=True)
        for name, folder in rows:
            result = run(args, folder)
            if isinstance(result, str):
                print(f"| {name} | {result} | | | |", flush=True)
                worst = 1
                continue
            lawson, ort, apart = result
            print(f"| {name} | {lawson:.1f} | {ort:.1f} | {ort / lawson:.2f} | {apart:.1e} |", flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
