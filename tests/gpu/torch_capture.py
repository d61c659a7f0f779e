#!/usr/bin/env python3
"""Runs inside PyTorch's own streams and graph captures on a GPU; one line of JSON per test. Needs PyTorch with a GPU
(exit status 77 without). LAWSON_LIBRARY names liblawson.so where it is not beside the package.

- first: lawson's first call in the process is made while PyTorch captures: opening the device, compiling, running
- mixed: a capture with PyTorch's operations before and after the run, replayed with other inputs
- stream: the same without a capture, in a side stream
"""
import json, os, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests", "lib")]
try:
    import torch
except ImportError:
    torch = None
import tinyonnx as tx

ROWS, COLUMNS = 32, 256


def network(path):
    """y = softmax(tanh(x) * 3 + x), and the sums of its columns times x: several kernels."""
    dims = [ROWS, COLUMNS]
    nodes = [tx.node("Tanh", ["x"], ["t"]), tx.node("Mul", ["t", "three"], ["m"]), tx.node("Add", ["m", "x"], ["a"]),
             tx.node("Softmax", ["a"], ["y"], axis=-1), tx.node("ReduceSum", ["y", "axes"], ["s"], keepdims=1),
             tx.node("Mul", ["s", "x"], ["z"])]
    with open(path, "wb") as f:
        f.write(tx.model(nodes, [("x", tx.F32, dims)], [(n, tx.F32, dims) for n in "yz"],
                         [("three", tx.F32, [], [3.0]), ("axes", tx.I64, [1], [0])]))


def expected(x):
    y = torch.softmax(torch.tanh(x.double()) * 3 + x.double(), -1)
    return y, y.sum(0, keepdim=True) * x.double()


def close(got, want):
    return bool(((got.double() - want).abs() <= 1e-5 + 1e-4 * want.abs()).all())


def report(test, passed, **facts):
    print(json.dumps({"test": "torch: " + test, "passed": bool(passed), **facts}), flush=True)
    return passed


class Bound:
    """A session with fixed memory for its input and outputs."""
    def __init__(self, path, x, y, z):
        import lawson  # the library is opened here
        self.session = lawson.Session(path, device="cuda", cache="")
        self.session.bind("x", x)
        self.session.bind_output("y", y)
        self.session.bind_output("z", z)

    def enqueue(self):
        self.session.enqueue(torch.cuda.current_stream().cuda_stream)


def capture(run):
    """A graph of what |run| does, captured the way PyTorch documents it."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        run()
    return graph


def first(path, x, y, z):
    bound = []

    def run():
        bound.append(Bound(path, x, y, z))
        bound[0].enqueue()

    graph = capture(run)
    good = True
    for seed in range(3):
        torch.manual_seed(seed)
        x.copy_(torch.randn_like(x))
        y.fill_(float("nan")), z.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        good = good and close(y, expected(x)[0]) and close(z, expected(x)[1])
    report("first call inside a capture", good)
    return bound[0], good


def mixed(bound, x, y, z):
    source, out = torch.zeros_like(x), torch.empty_like(y)

    def run():
        torch.mul(source, 2, out=x)
        bound.enqueue()
        torch.add(y, z, out=out)

    graph = capture(run)
    good = True
    for seed in range(20):
        torch.manual_seed(100 + seed)
        source.copy_(torch.randn_like(x))
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        want = expected(source * 2)
        good = good and close(out, want[0] + want[1])
    return report("capture with other operations around it", good, replays=20)


def stream(bound, x, y, z):
    side, good = torch.cuda.Stream(), True
    for seed in range(50):
        source = torch.randn(ROWS, COLUMNS, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.copy_(source)
            bound.enqueue()
            out = y + z
        torch.cuda.current_stream().wait_stream(side)
        want = expected(source)
        good = good and close(out, want[0] + want[1])
    return report("a side stream", good, runs=50)


def main():
    if torch is None or not torch.cuda.is_available():
        print("# SKIP no PyTorch with a GPU")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        network(path)
        x, y, z = (torch.zeros(ROWS, COLUMNS, device="cuda") for _ in range(3))
        bound, good = first(path, x, y, z)
        good = mixed(bound, x, y, z) and good
        good = stream(bound, x, y, z) and good
        torch.cuda.synchronize()
        bound.session.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
