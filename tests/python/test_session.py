#!/usr/bin/env python3
"""The Python package on the CPU and the null device: NumPy, DLPack, errors, bindings."""
import gc
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("LW_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "lib"), os.path.join(ROOT, "python")]
import tap  # noqa: E402
import tinyonnx as tx  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

# A sanitizer's library only loads into a process that has the sanitizer's runtime.
BUILD = os.environ.get("LW_BUILD_DIR")
if BUILD:
    os.environ["LAWSON_LIBRARY"] = os.path.join(BUILD, "liblawson.so")
import lawson  # noqa: E402


def loads():
    if tap.build_is_sanitized():
        return False
    try:
        lawson.version()
        return True
    except lawson.Error:
        return False


def relu_model(dims=(2, 3), elem=tx.F32):
    return tx.model([tx.node("Add", ["a", "b"], ["add"]), tx.node("Relu", ["add"], ["relu"])],
                    [("a", elem, dims), ("b", elem, dims)],
                    [("add", elem, dims), ("relu", elem, dims)])


class WithFolder(unittest.TestCase):
    def setUp(self):
        if not loads():
            self.skipTest("liblawson.so does not load into this process (a sanitizer's build?)")
        if numpy is None:
            self.skipTest("NumPy is missing")
        folder = tempfile.TemporaryDirectory(prefix="lw_python_")
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def session(self, data=None, **options):
        path = os.path.join(self.dir, "net.onnx")
        with open(path, "wb") as file:
            file.write(relu_model() if data is None else data)
        options.setdefault("device", "cpu")
        return lawson.Session(path, cache=os.path.join(self.dir, "cache"), **options)


class DLPackOnly:
    """An array that speaks DLPack and nothing else, as tensors of other libraries do."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class Sessions(WithFolder):
    def test_version(self):
        self.assertRegex(lawson.version(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(lawson.__version__, lawson.version())

    def test_infos(self):
        s = self.session()
        self.assertEqual(s.inputs, [("a", "f32", (2, 3)), ("b", "f32", (2, 3))])
        self.assertEqual([o.name for o in s.outputs], ["add", "relu"])
        self.assertEqual(s.device, "cpu")

    def test_run(self):
        s = self.session()
        a = numpy.array([[1, -2, 3], [-4, 5, -6]], numpy.float32)
        b = numpy.full((2, 3), 0.5, numpy.float32)
        add, relu = s.run([a, b])
        numpy.testing.assert_array_equal(add, a + b)
        numpy.testing.assert_array_equal(relu, numpy.maximum(a + b, 0))
        self.assertEqual(relu.dtype, numpy.float32)

    def test_bound_memory_is_used_in_place(self):
        s = self.session()
        a, b = (numpy.zeros((2, 3), numpy.float32) for _ in "ab")
        add, relu = (numpy.full((2, 3), 7, numpy.float32) for _ in "ab")
        s.bind(0, a), s.bind(1, b), s.bind_output(0, add), s.bind_output(1, relu)
        for value in (1, -3):
            a[:] = value  # no bind in between
            s.enqueue()
            self.assertTrue((add == value).all() and (relu == max(value, 0)).all())
        s.run([b, b])
        self.assertTrue((add == -3).all())  # run() has its own outputs
        a[:] = 4
        s.run_bound()
        self.assertTrue((add == 4).all())  # and leaves the bindings as they were

    def test_dlpack(self):
        s = self.session()
        a = numpy.arange(6, dtype=numpy.float32).reshape(2, 3) - 2
        b = numpy.ones((2, 3), numpy.float32)
        relu = numpy.empty((2, 3), numpy.float32)
        s.bind(0, DLPackOnly(a)), s.bind(1, DLPackOnly(b))
        s.bind_output(0, numpy.empty((2, 3), numpy.float32)), s.bind_output(1, DLPackOnly(relu))
        gc.collect()
        s.run_bound()
        numpy.testing.assert_array_equal(relu, numpy.maximum(a + b, 0))

    def test_strided(self):
        s = self.session()
        a = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)[::-2, ::2]
        b = numpy.arange(6, dtype=numpy.float32).reshape(3, 2).T
        big = numpy.full((2, 6), 9, numpy.float32)
        s.bind(0, a), s.bind(1, b)
        s.bind_output(0, big[:, ::2]), s.bind_output(1, numpy.empty((2, 3), numpy.float32))
        s.run_bound()
        numpy.testing.assert_array_equal(big[:, ::2], a + b)
        self.assertTrue((big[:, 1::2] == 9).all())
        self.assertEqual(s.stats()["staging_copies"], 3)

    def test_channels_last(self):
        s = self.session(relu_model((2, 3, 4, 5)), channels_last=True)
        self.assertEqual(s.inputs[0].shape, (2, 3, 4, 5))
        def nhwc(array):
            return numpy.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        a = nhwc(numpy.random.rand(2, 3, 4, 5).astype(numpy.float32) - 0.5)
        b = numpy.random.rand(2, 3, 4, 5).astype(numpy.float32) - 0.5  # NCHW: copied through
        relu = nhwc(numpy.empty((2, 3, 4, 5), numpy.float32))
        add = numpy.empty((2, 3, 4, 5), numpy.float32)
        s.bind(0, a), s.bind(1, b), s.bind_output(0, add), s.bind_output(1, relu)
        s.run_bound()
        numpy.testing.assert_array_equal(add, a + b)
        numpy.testing.assert_array_equal(relu, numpy.maximum(a + b, 0))
        self.assertEqual(s.stats()["staging_copies"], 2)

    def test_symbolic(self):
        net = relu_model(("batch", 3))
        with self.assertRaises(lawson.Error) as caught:
            self.session(net)
        self.assertEqual(caught.exception.status, 2)
        self.assertIn("batch", str(caught.exception))
        self.assertEqual(self.session(net, dims={"batch": 5}).outputs[0].shape, (5, 3))
        self.assertEqual(self.session(net, shapes={"a": (4, 3)}).outputs[0].shape, (4, 3))

    def test_bf16_as_raw_bits(self):
        s = self.session(relu_model((2,), tx.BF16))
        one, minus_two = 0x3f80, 0xc000
        a = numpy.array([one, minus_two], numpy.uint16)
        add, relu = s.run([a, numpy.zeros(2, numpy.uint16)])
        self.assertEqual((list(add), list(relu)), ([one, minus_two], [one, 0]))

    def test_stats_and_explain(self):
        s = self.session()
        s.run([numpy.zeros((2, 3), numpy.float32)] * 2)
        stats = s.stats()
        self.assertEqual((stats["kernels"], stats["library_calls"]), (1, 0))
        self.assertGreater(stats["compile_s"], 0)
        self.assertEqual(s.explain()["totals"]["launches"], 1)
        self.assertEqual(self.session(fuse=False).stats()["kernels"], 2)

    def test_null_device_counts(self):
        self.assertEqual(self.session(device="null").stats()["kernels"], 1)

    def test_two_sessions_and_close(self):
        one, two = self.session(), self.session()
        zeros = [numpy.zeros((2, 3), numpy.float32)] * 2
        one.run(zeros)
        one.close()
        two.run(zeros)
        one.close()  # twice is fine
        with self.session() as s:
            s.run(zeros)


class Errors(WithFolder):
    def fails(self, function, *args, says, status=2):
        with self.assertRaises(lawson.Error) as caught:
            function(*args)
        self.assertIn(says, str(caught.exception))
        self.assertEqual(caught.exception.status, status)

    def test_loading(self):
        self.fails(lawson.Session, os.path.join(self.dir, "none.onnx"), says="none.onnx", status=7)
        self.fails(lambda: self.session(b"junk" * 30), says="", status=3)
        self.fails(lambda: self.session(device="toaster"), says="auto, cpu, cuda")
        self.fails(lambda: self.session(colour="red"), says="no option 'colour'")

    def test_arrays(self):
        s = self.session()
        good = numpy.zeros((2, 3), numpy.float32)
        self.fails(s.run, [good], says="the model has 2")
        self.fails(s.run, [good.astype(numpy.float64), good], says="f64[2, 3] was given")
        self.fails(s.run, [good[:1], good], says="f32[1, 3] was given")
        self.fails(s.run, [good.astype(numpy.complex64), good], says="NumPy type")
        self.fails(s.run, [[[1, 2, 3]] * 2, good], says="is no array")
        self.fails(s.bind, 2, good, says="there is no input 2")
        self.fails(s.bind, -1, good, says="there is no input -1")
        frozen = good.copy()
        frozen.flags.writeable = False
        self.fails(s.bind_output, 0, frozen, says="read-only")
        class Overlapping:
            __array_interface__ = dict(good.__array_interface__, strides=(0, 4))
        self.fails(s.bind_output, 0, Overlapping(), says="share memory")

    def test_wrong_kinds_of_argument(self):
        s = self.session()
        good = numpy.zeros((2, 3), numpy.float32)
        for inputs in ({"a": good, "b": good}, None, 3, "ab", good):
            with self.assertRaisesRegex(TypeError, r"list of arrays in the model's order \(a, b\)"):
                s.run(inputs)
        with self.assertRaisesRegex(TypeError, "by its number, not by 'b'; .* 1: b"):
            s.bind("b", good)
        with self.assertRaisesRegex(TypeError, "1: relu"):
            s.bind_output("relu", good)
        s.bind(numpy.int64(0), good)
        with self.assertRaisesRegex(TypeError, "bytes of a model"):
            lawson.Session(relu_model())

    def test_open_dimensions(self):
        self.fails(lambda: self.session(relu_model(("batch", 3))), says="dims={")

    def test_closed(self):
        s = self.session()
        self.assertRegex(repr(s), r"net.onnx' on cpu: \(a: f32\[2, 3\], b: .* -> \(add: ")
        s.close()
        self.assertIn("closed", repr(s))
        zeros = [numpy.zeros((2, 3), numpy.float32)] * 2
        for call in (lambda: s.run(zeros), lambda: s.bind(0, zeros[0]), s.run_bound, s.enqueue,
                     s.stats, s.explain, lambda: s.device):
            self.fails(call, says="the session is closed")

    def test_not_everything_bound(self):
        s = self.session()
        s.bind(0, numpy.zeros((2, 3), numpy.float32))
        self.fails(s.run_bound, says="b")

    def test_unsupported(self):
        net = tx.model([tx.node("Frobnicate", ["a"], ["y"])], [("a", tx.F32, (2,))],
                       [("y", tx.F32, (2,))])
        self.fails(lambda: self.session(net), says="Frobnicate", status=4)


class Import(unittest.TestCase):
    def test_needs_no_numpy(self):
        """Importing and describing a model must not import NumPy."""
        code = ("import sys; sys.modules['numpy'] = None; import lawson, lawson._tensor; "
                "print(lawson.Session.__name__)")
        path = os.path.join(ROOT, "python")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=path))
        self.assertEqual(done.stdout, "Session\n", done.stderr)

    def test_a_missing_library_is_said(self):
        code = ("import lawson\ntry:\n lawson.version()\nexcept lawson.Error as e:\n print(e)")
        env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"),
                   LAWSON_LIBRARY="/nonexistent/liblawson.so")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
        self.assertIn("LAWSON_LIBRARY", done.stdout, done.stderr)


if __name__ == "__main__":
    tap.main()
