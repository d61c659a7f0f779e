#!/usr/bin/env python3
"""The Python package on the CPU and the null device: NumPy, DLPack, errors, bindings."""
import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

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
        self.assertEqual(self.session(net, dims={"batch": 5}).outputs[0].shape, (5, 3))
        self.assertEqual(self.session(net, shapes={"a": (4, 3)}).outputs[0].shape, (4, 3))

    def test_open_dimensions(self):
        """Compiled for the shapes of each run, and kept for some of them."""
        s = self.session(relu_model(("batch", 3)), shapes_kept=2)
        self.assertEqual(s.inputs[0], ("a", "f32", ("batch", 3)))
        self.assertEqual(s.get_outputs()[1].shape, ("batch", 3))
        self.assertRegex(repr(s), r"on cpu: \(a: f32\[batch, 3\]")
        for batch in (2, 5, 2, 1, 7, 2):
            a = numpy.random.rand(batch, 3).astype(numpy.float32) - 0.5
            add, relu = s.run([a, numpy.zeros_like(a)])
            numpy.testing.assert_array_equal(relu, numpy.maximum(a, 0))
            self.assertEqual(add.shape, (batch, 3))
            self.assertLessEqual(s.stats()["shapes_ready"], 2)
        self.assertEqual(s.stats()["kernels"], 1)
        a, b = (numpy.ones((4, 3), numpy.float32) for _ in "ab")
        add, relu = (numpy.zeros((4, 3), numpy.float32) for _ in "ab")
        s.bind("a", a), s.bind("b", b), s.bind_output("add", add), s.bind_output("relu", relu)
        s.run([a[:3], b[:3]])
        s.run_bound()
        self.assertTrue((add == 2).all())

    def test_sizes_of_a_dimension(self):
        """Runs of any size in few compiled ones."""
        s = self.session(relu_model(("batch", 3)), dims={"batch": "2,4:16"})
        for batch in (2, 5, 1, 16, 7, 3, 12):
            a = numpy.random.rand(batch, 3).astype(numpy.float32) - 0.5
            add, relu = s.run([a, numpy.zeros_like(a)])
            numpy.testing.assert_array_equal(relu, numpy.maximum(a, 0))
        self.assertEqual(s.stats()["shapes_compiled"], 4)

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


class Names(WithFolder):
    """Inputs and outputs by name, in ONNX Runtime's form."""

    def setUp(self):
        super().setUp()
        self.a = numpy.array([[1, -2, 3], [-4, 5, -6]], numpy.float32)
        self.b = numpy.full((2, 3), 0.5, numpy.float32)
        self.want = numpy.maximum(self.a + self.b, 0)

    def test_run(self):
        s, feed = self.session(), {"b": self.b, "a": self.a}
        relu, add = s.run(["relu", "add"], feed)
        numpy.testing.assert_array_equal(relu, self.want)
        numpy.testing.assert_array_equal(add, self.a + self.b)
        relu, = s.run(["relu"], feed)
        numpy.testing.assert_array_equal(relu, self.want)
        for results in (s.run(None, feed), s.run(feed), s.run(None, [self.a, self.b])):
            self.assertEqual(len(results), 2)
            numpy.testing.assert_array_equal(results[1], self.want)

    def test_ports(self):
        s = self.session()
        self.assertEqual([(i.name, i.type, i.shape) for i in s.get_inputs()],
                         [("a", "tensor(float)", (2, 3)), ("b", "tensor(float)", (2, 3))])
        self.assertEqual([o.name for o in s.get_outputs()], ["add", "relu"])

    def test_bind(self):
        s = self.session()
        relu = numpy.empty((2, 3), numpy.float32)
        s.bind("b", self.b), s.bind("a", self.a)
        s.bind_output("relu", relu), s.bind_output("add", numpy.empty((2, 3), numpy.float32))
        s.run_bound()
        numpy.testing.assert_array_equal(relu, self.want)

    def test_bytes(self):
        s = lawson.Session(relu_model(), device="cpu", cache=os.path.join(self.dir, "cache"))
        numpy.testing.assert_array_equal(s.run([self.a, self.b])[1], self.want)
        s = lawson.Session(relu_model(("n", 3)), device="cpu", cache="")
        path = s.path
        numpy.testing.assert_array_equal(s.run([self.a, self.b])[1], self.want)
        s.close()
        self.assertFalse(os.path.exists(path))

    def test_io_binding(self):
        s = self.session()
        io = s.io_binding()
        io.bind_input("a", self.a), io.bind_cpu_input("b", self.b)
        given = numpy.empty((2, 3), numpy.float32)
        io.bind_output("relu", given), io.bind_output("add", device="cpu")
        s.run_with_iobinding(io)
        numpy.testing.assert_array_equal(given, self.want)
        add, relu = io.get_outputs()
        self.assertIs(relu, given)
        self.assertIsInstance(add, lawson.Tensor)
        numpy.testing.assert_array_equal(io.copy_outputs_to_cpu()[0], self.a + self.b)
        self.a[:] = 1  # bound in place, outputs too
        s.run_with_iobinding(io)
        self.assertTrue((add.numpy() == 1.5).all())
        self.assertEqual(s.stats()["staging_copies"], 0)
        io.clear_binding_outputs()
        self.assertEqual(io.get_outputs(), [])
        io.enqueue()  # outputs nobody bound are made
        self.assertTrue((io.copy_outputs_to_cpu()[1] == 1.5).all())
        self.assertFalse((given == 0).all())

    def test_io_binding_with_open_dimensions(self):
        s = self.session(relu_model(("batch", 3)))
        io = s.io_binding()
        for batch in (2, 4):
            a = numpy.full((batch, 3), batch, numpy.float32)
            io.bind_input(0, a), io.bind_input(1, a)
            s.run_with_iobinding(io)
            self.assertTrue((io.copy_outputs_to_cpu()[0] == 2 * batch).all())
            self.assertEqual(io.get_outputs()[0].shape, (batch, 3))

    def test_an_output_outlives_its_session(self):
        with self.session() as s:
            io = s.io_binding()
            io.bind_input("a", self.a), io.bind_input("b", self.b)
            s.run_with_iobinding(io)
            relu = io.get_outputs()[1]
        del s, io
        gc.collect()
        numpy.testing.assert_array_equal(relu.numpy(), self.want)

    def test_threads_take_turns(self):
        s, wrong = self.session(), []

        def work(value):
            a = numpy.full((2, 3), value, numpy.float32)
            for _ in range(50):
                if not (s.run([a, a])[0] == 2 * value).all():
                    wrong.append(value)

        threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Deciding(WithFolder):
    """Inputs whose values decide shapes and branches."""

    def reshape(self):
        return tx.model([tx.node("Reshape", ["a", "s"], ["y"])],
                        [("a", tx.F32, (2, 6)), ("s", tx.I64, ("n",))], [("y", tx.F32, ("m",))])

    def test_a_shape(self):
        s = self.session(self.reshape(), shapes_kept=2)
        a = numpy.arange(12, dtype=numpy.float32).reshape(2, 6)
        for shape in ([3, 4], [12], [2, 2, 3], [3, -1]):
            y, = s.run({"a": a, "s": numpy.array(shape)})
            numpy.testing.assert_array_equal(y, a.reshape(shape))
            self.assertLessEqual(len(s._context._contexts), 2)
        # Only the shape decides: other data, and the reversed view of a shape, make nothing new.
        made = list(s._context._contexts)
        y, = s.run([a + 1, numpy.array([-1, 3])[::-1]])
        numpy.testing.assert_array_equal(y, a.reshape(3, 4) + 1)
        self.assertEqual(list(s._context._contexts), made)
        self.assertEqual(s.stats()["kernels"], 1)
        io = s.io_binding()
        io.bind_input("a", a), io.bind_input("s", numpy.array([6, 2]))
        s.run_with_iobinding(io)
        self.assertEqual(io.get_outputs()[0].shape, (6, 2))

    def test_given_values(self):
        s = self.session(self.reshape(), values={"s": [4, 3]})
        self.assertEqual([i.name for i in s.inputs], ["a"])
        self.assertEqual(s.outputs[0].shape, (4, 3))
        y, = s.run([numpy.ones((2, 6), numpy.float32)])
        self.assertEqual(y.shape, (4, 3))

    def test_errors(self):
        s = self.session(self.reshape())
        a = numpy.zeros((2, 6), numpy.float32)
        with self.assertRaisesRegex(lawson.Error, "nothing ran yet"):
            s.stats()
        s.bind("a", a)
        with self.assertRaisesRegex(lawson.Error, "missing: s"):
            s.run_bound()
        with self.assertRaisesRegex(lawson.Error, "has to lie in memory of the host"):
            s.run([a, lawson.Tensor.from_pointer(4096, "i64", (2,), "cuda:0")])
        with self.assertRaisesRegex(lawson.Error, "no input of that name"):
            self.session(self.reshape(), values={"x": [1]})
        with self.assertRaisesRegex(lawson.Error, "another number of elements"):
            s.run([a, numpy.array([5, 5])])
        self.assertEqual(s.run([a, numpy.array([3, 4])])[0].shape, (3, 4))


class Tensors(WithFolder):
    def test_dlpack_shares_memory(self):
        a = numpy.arange(6, dtype=numpy.float32)
        t = lawson.Tensor.from_pointer(a.ctypes.data, "f32", (2, 3), owner=a)
        n = numpy.from_dlpack(t)
        n[1, 2] = 9
        self.assertEqual((a[5], t.numpy()[1, 2]), (9, 9))
        self.assertEqual((n.shape, n.dtype, t.__dlpack_device__()), ((2, 3), a.dtype, (1, 0)))
        t.numpy()[0, 0] = 7
        self.assertEqual(a[0], 7)

    def test_memory_lives_as_long_as_its_last_user(self):
        from lawson import _dlpack
        before = len(_dlpack._alive)
        a = numpy.arange(4, dtype=numpy.int64)
        alive = weakref.ref(a)
        t = lawson.Tensor.from_pointer(a.ctypes.data, "i64", (4,), owner=a)
        n = numpy.from_dlpack(t)
        del a, t
        gc.collect()
        self.assertEqual(list(n), [0, 1, 2, 3])
        self.assertIsNotNone(alive())
        del n
        gc.collect()
        self.assertIsNone(alive())
        self.assertEqual(len(_dlpack._alive), before)

    def test_capsules_that_nobody_takes(self):
        from lawson import _dlpack
        before = len(_dlpack._alive)
        t = lawson.Tensor.from_pointer(0, "f32", (0, 3))
        for version in (None, (0, 8), (1, 0), (1, 1)):
            capsule = t.__dlpack__(max_version=version)
            self.assertIn("versioned" if version and version[0] else '"dltensor"', repr(capsule))
            del capsule
        gc.collect()
        self.assertEqual(len(_dlpack._alive), before)

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(lawson.Error, "no type 'float'"):
            lawson.Tensor.from_pointer(0, "float", (1,))
        with self.assertRaisesRegex(lawson.Error, "not 'gpu'"):
            lawson.Tensor.from_pointer(0, "f32", (1,), "gpu")
        t = lawson.Tensor.from_pointer(1 << 40, "f32", (2, 3), "cuda:0")
        self.assertEqual(t.__dlpack_device__(), (2, 0))
        with self.assertRaisesRegex(lawson.Error, "read through DLPack"):
            t.numpy()
        with self.assertRaises(BufferError):
            t.__dlpack__(copy=True)
        with self.assertRaisesRegex(lawson.Error, "'a' lies on cuda:0, the model runs on cpu"):
            self.session().bind("a", t)

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is missing")
        s = self.session(relu_model((2, 3), tx.BF16))
        a = torch.tensor([[1, -2, 3], [-4, 5, -6]], dtype=torch.bfloat16)
        io = s.io_binding()
        io.bind_input("a", a), io.bind_input("b", torch.zeros_like(a))
        given = torch.empty_like(a)
        io.bind_output("add", given)
        s.run_with_iobinding(io)
        self.assertTrue(torch.equal(given, a))
        relu = torch.from_dlpack(io.get_outputs()[1])
        self.assertTrue(torch.equal(relu, torch.relu(a)))
        s.run_with_iobinding(io)  # shared, not copied
        self.assertEqual(relu.data_ptr(), io.get_outputs()[1].pointer)


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
        for inputs in (None, 3, "ab", good):
            with self.assertRaisesRegex(TypeError, r"in the model's order \(a, b\)"):
                s.run(inputs)
        with self.assertRaisesRegex(TypeError, "list of names"):
            s.run("relu", {"a": good, "b": good})
        with self.assertRaisesRegex(TypeError, "by its name or number, not by 1.5"):
            s.bind(1.5, good)
        s.bind(numpy.int64(0), good)
        self.fails(s.bind, "x", good, says="there is no input 'x', the model has a, b")
        self.fails(s.bind_output, "a", good, says="no output 'a', the model has add, relu")
        self.fails(s.run, ["y"], {"a": good, "b": good}, says="there is no output 'y'")
        self.fails(s.run, {"a": good, "c": good}, says="there is no input 'c'")
        self.fails(s.run, {"a": good}, says="inputs are missing: b")
        self.fails(s.run_with_iobinding, self.session().io_binding(), says="another session")

    def test_open_dimensions(self):
        s = self.session(relu_model(("batch", 3)))
        good, wide = numpy.zeros((2, 3), numpy.float32), numpy.zeros((2, 4), numpy.float32)
        self.fails(s.stats, says="dims={")
        self.fails(s.run, [wide, good], says="'a': [2, 4] was given, the model has ['batch', 3]")
        self.fails(s.run, [good, good[:1]], says="batch")
        self.fails(s.run, [good.astype(numpy.float64), good], says="f64[2, 3] was given")
        s = self.session(relu_model(("batch", 3)))
        s.bind("a", good)
        self.fails(s.run_bound, says="input 1 'b': is not bound")
        self.fails(lambda: self.session(relu_model(("batch", 3)), device="toaster"),
                   says="auto, cpu, cuda")
        self.fails(lambda: self.session(relu_model(("n", 3)), shapes={"c": (2, 3)}), says="c")

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

    def test_sizes_that_depend_on_data(self):
        net = tx.model([tx.node("NonZero", ["a"], ["y"])], [("a", tx.F32, (4, 3))],
                       [("y", tx.I64, (2, "k"))])
        s = self.session(net)
        for a in (numpy.eye(4, 3), numpy.zeros((4, 3)), numpy.ones((4, 3))):
            a = a.astype(numpy.float32)
            for results in (s.run([a]), s.run(["y"], {"a": a})):
                self.assertEqual(len(results), 1)
                self.assertTrue(numpy.array_equal(results[0], numpy.array(a.nonzero())))

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
