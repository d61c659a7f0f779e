#!/usr/bin/env python3
"""The command line from outside: what it prints, what it writes, and how it ends."""
import json
import math
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import tap  # noqa: E402
import tinyonnx as tx  # noqa: E402

CLI = os.environ.get("LW_CLI", "lawson")
USAGE, INVALID, UNSUPPORTED, DEVICE = 2, 3, 4, 5


def relu_model(dims=(2, 3)):
    """add = a + b, relu = max(add, 0)"""
    return tx.model([tx.node("Add", ["a", "b"], ["add"]), tx.node("Relu", ["add"], ["relu"])],
                    [("a", tx.F32, dims), ("b", tx.F32, dims)],
                    [("add", tx.F32, dims), ("relu", tx.F32, dims)])


class Command(unittest.TestCase):
    """A folder of its own with its own kernel cache, and a way to run the program in it."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lw_cli_")
        self.addCleanup(self.folder.cleanup)
        self.dir = self.folder.name
        self.env = dict(os.environ, LAWSON_CACHE=os.path.join(self.dir, "cache"), HOME=self.dir)

    def write(self, name, data):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return path

    def lawson(self, *args, code=0, env=None):
        """Runs it; the exit code must be |code|, and no sanitizer may have spoken."""
        done = subprocess.run([CLI, *args], cwd=self.dir, env=env or self.env, timeout=300,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        shown = f"{' '.join(args)}\n{done.stdout}\n{done.stderr}"
        self.assertNotIn("Sanitizer", done.stderr, shown)
        self.assertNotIn("runtime error", done.stderr, shown)
        self.assertEqual(done.returncode, code, shown)
        return done

    def fails(self, *args, code, says, env=None):
        """Fails with one clear message."""
        done = self.lawson(*args, code=code, env=env)
        lines = [line for line in done.stderr.splitlines() if "warning:" not in line]
        self.assertGreaterEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("lawson: "), done.stderr)
        self.assertIn(says, done.stderr)
        return done


class Usage(Command):
    def test_nothing(self):
        self.assertIn("usage: lawson COMMAND", self.lawson(code=USAGE).stderr)

    def test_version(self):
        self.assertRegex(self.lawson("--version").stdout, r"^lawson \d+\.\d+\.\d+\n$")

    def test_help_of_everything(self):
        self.assertIn("first steps", self.lawson("--help").stdout)
        self.assertEqual(self.lawson("help").stdout, self.lawson("--help").stdout)
        for name in ("run", "bench", "check", "inspect", "explain", "device"):
            text = self.lawson("help", name).stdout
            self.assertEqual(text, self.lawson(name, "--help").stdout)
            for word in (f"usage: lawson {name}", "options:", "examples:", "exit codes:"):
                self.assertIn(word, text)
            self.assertTrue(all(len(line) <= 110 for line in text.splitlines()), text)

    def test_hints(self):
        self.fails("rnu", code=USAGE, says="did you mean 'run'?")
        self.fails("help", "benhc", code=USAGE, says="did you mean 'bench'?")
        self.fails("run", "--chekc", "x", code=USAGE, says="did you mean '--check'?")
        self.fails("run", "--zzzzzz", "x", code=USAGE, says="no option '--zzzzzz'")
        self.fails("run", "-Q", "x", code=USAGE, says="no option '-Q'")
        self.fails("frobnicate", code=USAGE, says="no command 'frobnicate'")

    def test_operands_and_values(self):
        self.fails("run", code=USAGE, says="run needs MODEL")
        self.fails("run", "a", "b", code=USAGE, says="'b' is one too many")
        self.fails("run", "--input", code=USAGE, says="needs a value")
        self.fails("run", "--check=yes", "x", code=USAGE, says="takes no value")
        self.fails("bench", "--iterations", "0", "x", code=USAGE, says="whole number")
        self.fails("bench", "--iterations", "ten", "x", code=USAGE, says="whole number")
        self.fails("bench", "--time-limit", "nan", "x", code=USAGE, says="number from")
        self.fails("bench", "--device", "null", "x", code=USAGE, says="nothing to time")
        self.fails("bench", "--compare", "--no-fuse", "x", code=USAGE, says="leave one out")
        self.fails("run", "--device", "toaster", "x", code=USAGE, says="auto, cpu, cuda")
        self.fails("run", "--target", "sm_1", "x", code=USAGE, says="cuda:sm_80")
        self.fails("run", "--dim", "batch", "x", code=USAGE, says="NAME=N")
        self.fails("run", "--dim", "batch=-1", "x", code=USAGE, says="NAME=N")
        self.fails("run", "--shape", "x=2xthree", "x", code=USAGE, says="INPUT=2x3x64x64")
        self.fails("run", "--force", "g12", "x", code=USAGE, says="fusion ids")
        self.fails("run", "--threads", "-1", "x", code=USAGE, says="number from 0")
        self.fails("run", "--check", "--device", "null", "x", code=USAGE, says="nothing to check")
        self.fails("run", "", code=USAGE, says="MODEL is empty")
        self.fails("run", "-i", "", "x", code=USAGE, says="--input is empty")
        self.fails("run", "--target", "cuda:sm_90", "x", code=USAGE, says="mean 'cuda:sm_90a'?")


class Run(Command):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", relu_model())
        self.a = self.write("a.npy", tx.npy(tx.F32, (2, 3), [1, -2, 3, -4, 5, -6]))
        self.b = self.write("b.npy", tx.npy(tx.F32, (2, 3), [0.5] * 6))

    def outputs(self, *args):
        self.lawson("run", self.model, "--device", "cpu", "-o", "out", *args)
        return [tx.read_npy(os.path.join(self.dir, "out", f"out_{i}.npy")) for i in (0, 1)]

    def test_given_inputs(self):
        add, relu = self.outputs("-i", self.a, "-i", self.b)
        self.assertEqual(add, ("<f4", (2, 3), [1.5, -1.5, 3.5, -3.5, 5.5, -5.5]))
        self.assertEqual(relu, ("<f4", (2, 3), [1.5, 0, 3.5, 0, 5.5, 0]))

    def test_inputs_by_name(self):
        zeros = self.write("z=0.npy", tx.npy(tx.F32, (2, 3), [0] * 6))  # a name with '='
        add, _ = self.outputs("-i", "b=" + self.a, "-i", zeros)
        self.assertEqual(add[2], [1, -2, 3, -4, 5, -6])

    def test_unfused_is_the_same(self):
        self.assertEqual(self.outputs("-i", self.a, "-i", self.b),
                         self.outputs("-i", self.a, "-i", self.b, "--no-fuse"))

    def test_check_and_seed(self):
        first = self.outputs("--seed", "7", "--check")
        self.assertEqual(first, self.outputs("--seed", "7"))
        self.assertNotEqual(first, self.outputs("--seed", "8"))
        done = self.lawson("run", self.model, "--device", "cpu", "--check")
        self.assertRegex(done.stdout, r"inputs: random, seed (\d+) \(--seed \1 gives the same\)")
        self.assertRegex(done.stdout, r"add .* ok\n")

    def test_json(self):
        text = self.lawson("run", self.model, "--device", "cpu", "--check", "--json").stdout
        report = json.loads(text)
        self.assertEqual(report["schema"], "lawson-run-1")
        self.assertEqual(report["exit_code"], 0)
        self.assertEqual([o["name"] for o in report["outputs"]], ["add", "relu"])
        self.assertEqual(report["outputs"][0]["shape"], [2, 3])
        self.assertEqual([c["bad"] for c in report["check"]], [0, 0])
        self.assertEqual(report["stats"]["kernels"], 1)

    def test_null_device_counts(self):
        text = self.lawson("run", self.model, "--device", "null", "--json").stdout
        self.assertEqual(json.loads(text)["stats"]["kernels"], 1)
        text = self.lawson("run", self.model, "--device", "null", "--no-fuse", "--json").stdout
        self.assertEqual(json.loads(text)["stats"]["kernels"], 2)

    def test_second_start_compiles_nothing(self):
        def stats():
            text = self.lawson("run", self.model, "--device", "cpu", "--json").stdout
            return json.loads(text)["stats"]
        self.assertGreater(stats()["kernels_built"], 0)
        self.assertEqual(stats()["kernels_built"], 0)
        # and needs no compiler
        done = self.lawson("run", self.model, "--device", "cpu", "--check", "--json",
                           env=dict(self.env, PATH=""))
        self.assertEqual(json.loads(done.stdout)["stats"]["kernels_built"], 0)

    def test_symbolic_dimensions(self):
        net = self.write("sym.onnx", relu_model(("batch", 3)))
        self.fails("run", net, "--device", "cpu", code=USAGE, says="batch")
        self.lawson("run", net, "--device", "cpu", "--dim", "batch=4", "--check")
        self.lawson("run", net, "--device", "cpu", "--shape", "a=4x3", "--check")
        report = json.loads(self.lawson("run", net, "--device", "cpu", "-i", self.a,
                                        "--json").stdout)
        self.assertEqual(report["outputs"][0]["shape"], [2, 3])
        self.fails("run", net, "-i", self.a, "--shape", "b=5x3", code=USAGE, says="")

    def test_value_of_an_input(self):
        net = self.write("value.onnx", tx.model(
            [tx.node("Reshape", ["a", "s"], ["y"])],
            [("a", tx.F32, (2, 3)), ("s", tx.I64, ("n",))], [("y", tx.F32, ("m",))]))
        self.fails("run", net, "--device", "cpu", code=USAGE, says="must be known")
        report = json.loads(self.lawson("run", net, "--device", "cpu", "--value", "s=3,2",
                                        "--check", "--json").stdout)
        self.assertEqual([o["shape"] for o in report["outputs"]], [[3, 2]])
        self.assertIn("can compile", self.lawson("inspect", net, "--value", "s=6").stdout)
        self.fails("run", net, "--value", "s=3;2", code=USAGE, says="INPUT=2,3,-1.5")

    def test_sizes_of_a_dimension(self):
        net = self.write("sym.onnx", relu_model(("batch", 3)))
        for dim, files in (("1,4:16", ("-i", self.a)), ("auto", ("-i", self.a)), ("1,2:6", ())):
            report = json.loads(self.lawson("run", net, "--device", "cpu", "--dim", "batch=" + dim,
                                            "--check", "--json", *files).stdout)
            self.assertEqual(report["outputs"][0]["shape"], [2 if files else 6, 3])
            self.assertEqual(report["check"][0]["bad"], 0)
        self.lawson("bench", net, "--device", "cpu", "--dim", "batch=2:4", "-n", "5")
        self.lawson("run", net, "--dim", "batch=2:8", "--compile-only", "--target", "cpu")
        self.fails("run", net, "--device", "cpu", "--dim", "batch=auto", code=USAGE, says="batch")
        self.fails("run", net, "--device", "cpu", "--dim", "batch=8:4", code=USAGE, says="1,2,8:64")
        self.fails("run", net, "--device", "cpu", "--dim", "rows=2:4", "--dim", "batch=2:4",
                   code=USAGE, says="rows")

    def test_states(self):
        net = self.write("cache.onnx", tx.model(
            [tx.node("Concat", ["past_k", "x"], ["present_k"], axis=0),
             tx.node("ReduceSum", ["present_k"], ["y"], keepdims=1)],
            [("x", tx.F32, (1, 4)), ("past_k", tx.F32, (5, 4))],
            [("y", tx.F32, (1, 1)), ("present_k", tx.F32, (6, 4))]))
        for state in ("past_k=present_k", "auto"):
            report = json.loads(self.lawson("run", net, "--device", "cpu", "--state", state,
                                            "--check", "--json").stdout)
            self.assertEqual([o["shape"] for o in report["outputs"]], [[1, 1], [6, 4]])
            self.assertEqual([c["bad"] for c in report["check"]], [0, 0])
        self.lawson("bench", net, "--device", "cpu", "--state", "auto", "--state-rows", "16", "-n", "30")
        self.fails("run", net, "--device", "cpu", "--state", "x=present_k", code=UNSUPPORTED,
                   says="state x=present_k")
        self.fails("run", net, "--device", "cpu", "--state", "x", code=USAGE, says="INPUT=OUTPUT")

    def test_a_file_that_needs_numbers(self):
        """The number of rows goes into a mean: every size is imported and compiled by itself."""
        net = self.write("mean.onnx", tx.model(
            [tx.node("ReduceMean", ["a"], ["m"], name="pool", axes=[0], keepdims=1),
             tx.node("Sub", ["a", "m"], ["y"])],
            [("a", tx.F32, ("batch", 3))], [("y", tx.F32, ("batch", 3))]))
        done = self.lawson("run", net, "--device", "cpu", "--dim", "batch=1,2,4:16", "-i", self.a,
                           "--check", "--json")
        self.assertEqual(json.loads(done.stdout)["outputs"][0]["shape"], [2, 3])
        self.assertEqual(json.loads(done.stdout)["check"][0]["bad"], 0)
        self.assertIn("every one is compiled by itself", done.stderr)
        self.assertIn("'pool'", done.stderr)
        self.fails("run", net, "--device", "cpu", code=USAGE, says="batch")

    def test_wrong_inputs(self):
        short = self.write("s.npy", tx.npy(tx.F32, (2, 2), [1, 2, 3, 4]))
        other = self.write("i.npy", tx.npy(tx.I32, (2, 3), [1] * 6))
        text = self.write("t.npy", "this is no array")
        self.fails("run", self.model, "--device", "cpu", "-i", short, code=USAGE, says="a")
        self.fails("run", self.model, "--device", "cpu", "-i", other, code=USAGE, says="i32")
        self.fails("run", self.model, "-i", text, code=USAGE, says="not a readable .npy file")
        self.fails("run", self.model, "-i", "missing.npy", code=USAGE, says="missing.npy")
        self.fails("run", self.model, "-i", "c=" + self.a, code=USAGE, says="no input 'c'")
        self.fails("run", self.model, "-i", self.a, "-i", self.b, "-i", self.a, code=USAGE,
                   says="only 2 inputs")
        self.fails("run", self.model, "-i", "a=" + self.a, "-i", "a=" + self.b, code=USAGE,
                   says="given twice")
        self.fails("run", self.model, "--input-range", "3", code=USAGE, says="LO:HI")

    def test_wrong_shape_names_the_file(self):
        for dims in ((2, 2), (6,), (2, 3, 1), ()):
            path = self.write("s.npy", tx.npy(tx.F32, dims, [0] * math.prod(dims)))
            self.fails("run", self.model, "-i", path, code=USAGE, says="s.npy: its shape is [")
        net = self.write("sym.onnx", relu_model(("batch", 3)))
        self.fails("run", net, "-i", self.write("w.npy", tx.npy(tx.F32, (2, 2), [0] * 4)),
                   code=USAGE, says="input 'a' of the model is [batch, 3]")

    def test_what_cannot_be_told(self):
        """exp of one number twice is equal or not by rounding alone: no verdict, and no failure."""
        net = self.write("tie.onnx", tx.model(
            [tx.node("Exp", ["a"], ["e"]), tx.node("Exp", ["b"], ["f"]),
             tx.node("Greater", ["e", "f"], ["y"]), tx.node("Add", ["a", "b"], ["z"])],
            [("a", tx.F32, (2, 3)), ("b", tx.F32, (2, 3))],
            [("y", tx.BOOL, (2, 3)), ("z", tx.F32, (2, 3))]))
        args = ("run", net, "--device", "cpu", "--check", "-i", self.a, "-i", self.a)
        text = self.lawson(*args).stdout
        self.assertRegex(text, r"y .* 0 of 6 +6 +cannot tell\n")
        self.assertRegex(text, r"z .* 0 of 6 +- +ok\n")
        told = json.loads(self.lawson(*args, "--json").stdout)["check"]
        self.assertEqual([c["ambiguous"] for c in told], [6, 0])

    def test_index_outside_a_table(self):
        net = self.write("table.onnx", tx.model(
            [tx.node("Gather", ["t", "i"], ["y"])],
            [("t", tx.F32, (2, 3)), ("i", tx.I64, (8,))], [("y", tx.F32, (8, 3))]))
        args = ("run", net, "--device", "cpu", "--check", "--seed", "1")
        self.fails(*args, "--input-range", "i=5:9", code=USAGE, says="--input-range")
        self.lawson(*args, "--input-range", "i=0:2")

    def test_integer_range(self):
        net = self.write("int.onnx", tx.model([tx.node("Neg", ["x"], ["y"])],
                                              [("x", tx.I64, (64,))], [("y", tx.I64, (64,))]))
        self.lawson("run", net, "--device", "cpu", "-o", "o", "--input-range", "x=5:7")
        self.assertEqual(set(tx.read_npy(os.path.join(self.dir, "o/out_0.npy"))[2]), {-5, -6})

    def test_compile_only(self):
        done = self.lawson("run", self.model, "--compile-only", "--target", "cpu", "--json")
        self.assertEqual(json.loads(done.stdout)["device"], "none")


class BadModels(Command):
    def test_files(self):
        self.fails("run", "missing.onnx", code=USAGE, says="missing.onnx")
        self.fails("run", self.dir, code=USAGE, says="regular file")
        for name, data in (("empty.onnx", b""), ("text.onnx", b"hello, I am a text\n" * 50),
                           ("zeros.onnx", bytes(4096)), ("npy.onnx", tx.npy(tx.F32, (1,), [1]))):
            for command in ("run", "bench", "explain"):
                self.fails(command, self.write(name, data), code=INVALID, says=name)
            done = self.fails("inspect", os.path.join(self.dir, name), code=INVALID, says=name)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))

    def test_every_prefix(self):
        whole = relu_model()
        self.write("prefix/model.onnx", whole)
        self.write("prefix/case.json", '{"expect": "ok", "every_prefix": true}')
        for i, (op, values) in enumerate((("in_0", [1.0] * 6), ("in_1", [1.0] * 6),
                                          ("out_0", [2.0] * 6), ("out_1", [2.0] * 6))):
            self.write(f"prefix/{op}.npy", tx.npy(tx.F32, (2, 3), values))
        done = self.lawson("check", "--device", "cpu", "prefix")
        self.assertTrue(done.stdout.endswith("1 passed, 0 failed, 0 skipped\n"), done.stdout)

    def test_unknown_operator(self):
        net = self.write("odd.onnx", tx.model(
            [tx.node("Frobnicate", ["x"], ["t"], name="first"),
             tx.node("Sparkle", ["t"], ["y"], name="second")],
            [("x", tx.F32, (2,))], [("y", tx.F32, (2,))]))
        done = self.fails("run", net, code=UNSUPPORTED, says="Frobnicate")
        self.assertIn("Sparkle", done.stderr)  # the whole list at once
        done = self.lawson("inspect", net, code=UNSUPPORTED)
        self.assertRegex(done.stdout, r"Frobnicate +ai.onnx 17 +1 +first")
        report = json.loads(self.lawson("inspect", "--json", net, code=UNSUPPORTED).stdout)
        self.assertEqual([u["name"] for u in report["unsupported"]], ["Frobnicate", "Sparkle"])


class Machine(Command):
    """No compiler, no GPU, a cache that cannot be written."""

    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", relu_model())

    def test_no_compiler(self):
        env = dict(self.env, PATH="", LAWSON_CACHE="")
        env.pop("CC", None)
        env.pop("LW_CC", None)
        self.fails("run", self.model, "--device", "cpu", code=DEVICE, says="PATH, which is empty",
                   env=env)
        self.fails("run", self.model, "--device", "cpu", "--cc", "/nonexistent/cc", "--cache",
                   "off", code=DEVICE, says="/nonexistent/cc")

    def test_no_gpu(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU")
        self.fails("run", self.model, "--device", "cuda", code=DEVICE, says="")
        self.lawson("run", self.model, "--device", "auto", "--check")

    def test_unwritable_cache(self):
        blocker = self.write("blocker", b"a file where a folder should be")
        env = dict(self.env, LAWSON_CACHE=os.path.join(blocker, "cache"))
        done = self.lawson("run", self.model, "--device", "cpu", "--check", env=env)
        self.assertIn("warning:", done.stderr)
        self.assertIn("cannot be created: Not a directory", done.stderr)

    def test_cache_that_cannot_be_made(self):
        closed = os.path.join(self.dir, "closed")
        os.mkdir(closed, 0o500)
        self.addCleanup(os.chmod, closed, 0o700)
        if os.access(closed, os.W_OK):
            self.skipTest("this user may write everywhere")
        done = self.lawson("run", self.model, "--device", "cpu", "--cache", closed + "/a/b")
        self.assertIn("cannot be created: Permission denied", done.stderr)

    def test_no_cache_is_said_once(self):
        env = {"PATH": os.environ.get("PATH", "")}
        done = self.lawson("bench", self.model, "--device", "cpu", "--compare", "-n", "1", env=env)
        self.assertEqual(done.stderr.count("kernels are not kept"), 1)
        self.assertEqual(self.lawson("inspect", self.model, env=env).stderr, "")

    def test_inspect_needs_nothing(self):
        done = self.lawson("inspect", self.model, env={"PATH": ""})
        self.assertIn("lawson can compile this model", done.stdout)
        self.assertRegex(done.stdout, r"0 +a +f32 +\[2, 3\]")
        self.assertIn("Add x1", done.stdout)

    def test_device(self):
        report = json.loads(self.lawson("device", "--json").stdout)
        self.assertEqual(report["devices"][0]["kind"], "cpu")
        self.assertTrue(report["compilers"][0]["works"], report)

    def test_full_output(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            done = subprocess.run([CLI, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("cannot write", done.stderr)


class Bench(Command):
    def test_compare(self):
        model = self.write("net.onnx", relu_model((64, 64)))
        done = self.lawson("bench", model, "--device", "cpu", "--compare", "-n", "7", "-w", "1",
                           "--json", "result.json")
        self.assertRegex(done.stdout, "as fast as unfused|fused is slower")
        with open(os.path.join(self.dir, "result.json")) as file:
            report = json.load(file)
        self.assertEqual(report["schema"], "lawson-bench-1")
        fused, unfused = report["results"]
        self.assertEqual((fused["name"], unfused["name"]), ("fused", "unfused"))
        self.assertEqual((fused["iterations"], unfused["iterations"]), (7, 7))
        self.assertEqual((fused["kernels"], unfused["kernels"]), (1, 2))
        self.assertLess(fused["traffic_bytes"], unfused["traffic_bytes"])
        for side in (fused, unfused):
            for times in (side["host"], side["device"]):
                order = [times[k] for k in ("min_us", "median_us", "p90_us", "p99_us")]
                self.assertEqual(order, sorted(order))
        self.assertGreater(report["speedup_of_fusion"], 0)

    def test_overheads(self):
        model = self.write("net.onnx", tx.model([tx.node("Exp", ["x"], ["e"]), tx.node("Sin", ["e"], ["y"])],
                                                [("x", tx.F32, (64, 64))], [("y", tx.F32, (64, 64))]))
        done = self.lawson("bench", model, "--device", "cpu", "--no-fuse", "-n", "5", "-w", "1", "--json", "result.json")
        self.assertRegex(done.stdout, r"gap ratio +gaps +kernels ran +launch +lanes +allocations +arena +at least")
        with open(os.path.join(self.dir, "result.json")) as file:
            side = json.load(file)["results"][0]
        self.assertEqual((side["host_allocations"], side["device_allocations"]), (0, 0))
        self.assertEqual((side["lanes"], side["waits"], side["launch"]), (1, 0, None))
        self.assertAlmostEqual(side["gap_ratio"], side["gap_us"] / side["kernel_us"], places=6)
        self.assertTrue(0 < side["live_bytes"] <= side["arena_bytes"])

    def test_cold_and_transfers(self):
        model = self.write("net.onnx", relu_model())
        text = self.lawson("bench", model, "--device", "cpu", "-n", "5", "--cold-l2",
                           "--transfers", "--json", "-").stdout
        report = json.loads(text)
        self.assertTrue(report["cold_l2"] and report["transfers"])
        self.assertNotIn("speedup_of_fusion", report)

    def test_time_limit(self):
        model = self.write("net.onnx", relu_model())
        text = self.lawson("bench", model, "--device", "cpu", "-n", "1000000", "-w", "1000000",
                           "--time-limit", "0.2", "--json", "-").stdout
        self.assertGreaterEqual(json.loads(text)["results"][0]["iterations"], 5)


class Explain(Command):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", relu_model())

    def test_table(self):
        done = self.lawson("explain", self.model, "--target", "cpu")
        self.assertIn("predicted", done.stdout)
        self.assertRegex(done.stdout, r"total: 1 groups, 1 launches")

    def test_json_schema(self):
        report = json.loads(self.lawson("explain", self.model, "--target", "cpu", "--json",
                                        "--no-fuse").stdout)
        self.assertEqual(report["schema"], "lawson-explain-1")
        self.assertEqual(report["totals"]["launches"], 2)
        for key in ("group", "class", "nodes", "inputs", "outputs", "launches", "bytes",
                    "predicted_us", "kernels"):
            self.assertIn(key, report["groups"][0])
        for key in ("name", "block_threads", "shared_bytes", "registers", "spill_bytes"):
            self.assertIn(key, report["kernels"][0])

    def test_lanes(self):
        """Two branches that no kernel holds together: independent reductions over long rows of different lengths."""
        nodes = [tx.node("ReduceSum", [x], [y], keepdims=1) for x, y in (("a", "ra"), ("b", "rb"))]
        nodes += [tx.node("Exp", ["ra"], ["ea"]), tx.node("ReduceMax", ["b"], ["mb"], keepdims=1)]
        model = self.write("two.onnx", tx.model(nodes, [("a", tx.F32, [3000]), ("b", tx.F32, [5000])],
                                                [("ea", tx.F32, [1]), ("rb", tx.F32, [1]), ("mb", tx.F32, [1])]))

        def schedule(*options):
            return json.loads(self.lawson("explain", model, "--target", "cpu", "--no-fuse", "--json", *options).stdout)["schedule"]

        self.assertEqual((schedule()["lanes"], schedule()["waits"]), (1, 0))
        self.assertIn("one step at a time", schedule()["why"])
        self.assertEqual(schedule("--streams", "2")["lanes"], 2)
        self.assertEqual(schedule("--streams", "dag")["lanes"], 0)
        self.assertLess(schedule("--streams", "2")["predicted_us"], schedule("--streams", "1")["predicted_us"] + 1)
        text = self.lawson("explain", model, "--target", "cpu", "--no-fuse", "--streams", "2").stdout
        self.assertRegex(text, r"schedule: 2 lanes, \d+ waits between them")
        for streams in "1", "2", "dag":
            self.lawson("run", model, "--device", "cpu", "--no-fuse", "--streams", streams, "--check")
        self.fails("explain", model, "--streams", "9", code=USAGE, says="option 'streams'")

    def test_decisions_forbid_and_force(self):
        report = json.loads(self.lawson("explain", self.model, "--target", "cpu", "--json").stdout)
        pair = report["decisions"][0]
        self.assertTrue(pair["fused"])
        self.assertRegex(pair["id"], "^f[0-9a-f]{12}$")
        for key in ("producer", "consumer", "producer_group", "consumer_group", "forced", "legal",
                    "reason", "us_apart", "us_together", "bytes_apart", "bytes_together"):
            self.assertIn(key, pair)
        apart = json.loads(self.lawson("explain", self.model, "--target", "cpu", "--json",
                                       "--forbid", pair["id"]).stdout)
        self.assertEqual(apart["totals"]["launches"], 2)
        table = self.lawson("explain", self.model, "--target", "cpu", "--forbid", pair["id"])
        self.assertIn(pair["id"], table.stdout)

    def test_states(self):
        done = self.lawson("explain", self.model, "--target", "cpu", "--dump",
                           "after:import,after:passes", "--plan", "--source")
        for word in ("# after import", "# after passes", "# plan", "lw_map_"):
            self.assertIn(word, done.stdout)
        self.fails("explain", self.model, "--target", "cpu", "--dump", "after:lunch", code=USAGE,
                   says="no step 'lunch'")
        self.fails("explain", self.model, "--dump", "lunch", code=USAGE, says="after:STEP")


    def test_source_is_one_unit(self):
        net = self.write("two.onnx", tx.model(
            [tx.node("Softmax", ["x"], ["t"]), tx.node("Exp", ["x"], ["u"])],
            [("x", tx.F32, (4, 8))], [("t", tx.F32, (4, 8)), ("u", tx.F32, (4, 8))]))
        done = self.lawson("explain", net, "--target", "cpu", "--no-fuse", "--source")
        self.assertGreater(done.stdout.count(" threads, "), 1)
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        built = subprocess.run([compiler, "-w", "-c", self.write("k.c", done.stdout), "-o",
                                os.path.join(self.dir, "k.o")], capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stderr)
        self.fails("explain", net, "--json", "--source", code=USAGE, says="leave one out")


class Check(Command):
    def case(self, name, spec=None, out=(0.0, 1.0), inp=(-1.0, 1.0), elem=tx.F32, op="Relu"):
        """A folder with one element-wise node on two elements."""
        self.write(f"{name}/model.onnx", tx.model([tx.node(op, ["x"], ["y"])],
                                                  [("x", elem, (2,))], [("y", elem, (2,))]))
        if inp is not None:
            self.write(f"{name}/in_0.npy", tx.npy(elem, (2,), inp))
        if out is not None:
            self.write(f"{name}/out_0.npy", tx.npy(elem, (2,), out))
        if spec is not None:
            self.write(f"{name}/case.json", json.dumps(spec))
        return name

    def check(self, *folders, passed=0, failed=0, skipped=0, args=()):
        done = self.lawson("check", "--device", "cpu", *args, *folders, code=1 if failed else 0)
        last = done.stdout.splitlines()[-1]
        self.assertEqual(last, f"{passed} passed, {failed} failed, {skipped} skipped", done.stdout)
        return done.stdout

    def test_plain(self):
        self.check(self.case("good"), passed=1)
        self.assertIn("differ, worst at 1: 1 instead of 2",
                      self.check(self.case("bad", out=(0.0, 2.0)), failed=1))
        self.check("good", "bad", self.case("close", out=(0.00009, 1.0009)), passed=2, failed=1)
        self.fails("check", "good", "nowhere", code=USAGE, says="'nowhere': No such file")
        self.fails("check", "good/model.onnx", code=USAGE, says="no case folder")

    def test_tolerances(self):
        close = (0.0, 1.01)
        self.check(self.case("a", {"rtol": 0.02, "atol": 0}, out=close), passed=1)
        self.check(self.case("b", {"rtol": 0, "atol": 0.02}, out=close), passed=1)
        self.check(self.case("c", {"rtol": 0.001, "atol": 0.001}, out=close), failed=1)
        nan = float("nan")
        self.check(self.case("d", {"rtol": 0, "atol": 0}, inp=(nan, 1.0), out=(nan, 1.0)), passed=1)
        self.check(self.case("e", {"rtol": 0, "atol": 0}, inp=(0.0, 1.0), out=(nan, 1.0)), failed=1)
        self.check(self.case("f", {"nan": "any"}, inp=(0.0, 1.0), out=(nan, 1.0)), passed=1)
        self.check(self.case("g", {}, inp=(nan, 1.0), out=(0.0, 1.0)), failed=1)

    def test_keys(self):
        self.assertIn('unknown key "rtoll"', self.check(self.case("a", {"rtoll": 1}), failed=1))
        for i, spec in enumerate(({"expect": "maybe"}, {"rtol": -1}, {"kernels_max": "1"},
                                  {"types": {"x": "bfloat16"}}, {"nan": "none"},
                                  {"every_prefix": 1}, {"bits_as": "../x"})):
            self.check(self.case(f"k{i}", spec), failed=1)
        self.write("k0/case.json", "{")
        self.check("k0", failed=1)

    def test_expected_errors(self):
        self.assertIn("an error is due",
                      self.check(self.case("a", {"expect": "error"}), failed=1))
        self.check(self.case("b", {"expect": "error"}, op="Frobnicate"), passed=1)
        self.check(self.case("c", {"or_error": True}, op="Frobnicate"), passed=1)
        self.check(self.case("d", {"expect": "ok"}, op="Frobnicate"), failed=1)
        self.write("e/model.onnx", b"\xff" * 100)
        self.write("e/case.json", '{"expect": "error", "compile_s_max": 1}')
        self.check("e", passed=1)

    def test_kernels_and_time(self):
        self.check(self.case("a", {"kernels_max": 1}), passed=1)
        self.assertIn("1 kernels, at most 0", self.check(self.case("b", {"kernels_max": 0}),
                                                         failed=1))
        self.check("b", passed=1, args=["--no-fuse"])
        self.check(self.case("c", {"compile_s_max": 0}), failed=1)
        self.check("c", passed=1, args=["--time-factor", "0"])

    def test_types_and_missing_arrays(self):
        one = 0x3f80
        spec = {"types": {"in_0": "bfloat16", "out_0": "bfloat16"}}
        self.check(self.case("a", spec, inp=(0x8000 | one, one), out=(0, one), elem=tx.BF16),
                   passed=1)
        self.check(self.case("b", {}, inp=(0x8000 | one, one), out=(0, one), elem=tx.BF16),
                   failed=1)
        self.check(self.case("c", {"gen": {"seed": 1}}, inp=None), skipped=1)
        self.check(self.case("d", inp=None), failed=1)
        self.check(self.case("e", out=None), failed=1)

    def test_bits_as(self):
        self.check(self.case("a", {"bits_as": "a"}), self.case("b", {"bits_as": "a"}), passed=2)
        self.case("c", {}, inp=(0.0, 5.0), out=(0.0, 5.0))
        self.assertIn("other bits", self.check(self.case("d", {"bits_as": "c"}), failed=1))
        self.check(self.case("e", {"bits_as": "nowhere"}), failed=1)

    def test_a_crash_is_one_failed_case(self):
        killer = self.write("killer", "#!/bin/sh\nkill -9 $PPID\nsleep 1\nkill -9 $PPID\n")
        os.chmod(killer, stat.S_IRWXU)
        folders = [self.case("a"), self.case("b")]
        out = self.check(*folders, failed=2, args=["--cc", killer, "--cache", "off"])
        self.assertIn("FAIL", out)
        self.check(*folders, passed=2)

    def test_hang(self):
        sleeper = self.write("sleeper", "#!/bin/sh\nexec sleep 30\n")
        os.chmod(sleeper, stat.S_IRWXU)
        out = self.check(self.case("a"), failed=1,
                         args=["--cc", sleeper, "--cache", "off", "--timeout", "2"])
        self.assertIn("given up", out)

    def test_many_jobs_and_json(self):
        folders = [self.case(f"n{i}", out=(0.0, 1.0 + i % 2)) for i in range(8)]
        self.check(*folders, passed=4, failed=4, args=["--jobs", "4", "--json", "r.json"])
        with open(os.path.join(self.dir, "r.json")) as file:
            report = json.load(file)
        self.assertEqual([c["result"] for c in report["cases"]], ["passed", "failed"] * 4)


if __name__ == "__main__":
    tap.main()
