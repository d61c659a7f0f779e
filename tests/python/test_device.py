#!/usr/bin/env python3
"""Memory on a CUDA device from Python: outputs made there, tensors by pointer, streams. On look-alikes of
the driver and NVRTC, and with LAWSON_TEST_GPU=1 on a real GPU, where PyTorch's tensors are tried too."""
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("LW_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))
BUILD = os.environ.get("LW_BUILD_DIR", os.path.join(ROOT, "build", "release"))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "lib"), os.path.join(ROOT, "python")]
import tap  # noqa: E402
import tinyonnx as tx  # noqa: E402

REAL = os.environ.get("LAWSON_TEST_GPU") == "1"
os.environ["LAWSON_LIBRARY"] = os.path.join(BUILD, "liblawson.so")
if not REAL:
    os.environ["LAWSON_CUDA"] = os.path.join(BUILD, "libcuda_standin.so")
    os.environ["LAWSON_NVRTC"] = os.path.join(BUILD, "libnvrtc_standin.so")
try:
    import numpy
except ImportError:
    numpy = None
import lawson  # noqa: E402


class OnDevice(unittest.TestCase):
    def setUp(self):
        if numpy is None or tap.build_is_sanitized():
            self.skipTest("NumPy is missing, or this is a sanitizer's build")
        folder = tempfile.TemporaryDirectory(prefix="lw_python_")
        self.addCleanup(folder.cleanup)
        net = tx.model([tx.node("Add", ["a", "b"], ["add"]), tx.node("Relu", ["add"], ["relu"])],
                       [("a", tx.F32, ("n", 3)), ("b", tx.F32, ("n", 3))],
                       [("add", tx.F32, ("n", 3)), ("relu", tx.F32, ("n", 3))])
        self.session = lawson.Session(net, device="cuda", cache=folder.name)
        self.addCleanup(self.session.close)
        self.a = numpy.array([[1, -2, 3], [-4, 5, -6]], numpy.float32)
        self.b = numpy.full((2, 3), 0.5, numpy.float32)
        self.want = numpy.maximum(self.a + self.b, 0)

    def test_arrays_of_the_host(self):
        relu, = self.session.run(["relu"], {"a": self.a, "b": self.b})
        numpy.testing.assert_array_equal(relu, self.want)
        self.assertEqual(self.session.device, "cuda:0")

    def test_outputs_made_on_the_device(self):
        io = self.session.io_binding()
        io.bind_input("a", self.a), io.bind_input("b", self.b)
        io.bind_output("relu"), io.bind_output("add", device="cpu")
        self.session.run_with_iobinding(io)
        add, relu = io.get_outputs()
        self.assertEqual((add.device, relu.device), ("cpu", "cuda:0"))
        self.assertEqual(relu.__dlpack_device__(), (2, 0))
        numpy.testing.assert_array_equal(relu.numpy(), self.want)
        numpy.testing.assert_array_equal(add.numpy(), self.a + self.b)

    def test_a_chain_that_stays_on_the_device(self):
        """Outputs are the next run's inputs: by Tensor, and by the bare pointer."""
        io = self.session.io_binding()
        io.bind_input("a", self.a), io.bind_input("b", self.b)
        self.session.run_with_iobinding(io)
        _, relu = io.get_outputs()
        again = lawson.Tensor.from_pointer(relu.pointer, "f32", relu.shape, "cuda:0", owner=relu)
        chain = self.session.io_binding()
        chain.bind_input("a", relu), chain.bind_input("b", again)
        self.session.run_with_iobinding(chain)
        result = chain.copy_outputs_to_cpu()[0]
        numpy.testing.assert_array_equal(result, 2 * self.want)
        self.assertEqual(self.session.stats()["staging_copies"], 0)

    def test_wrong_devices(self):
        io = self.session.io_binding()
        io.bind_input("a", self.a)
        io.bind_input("b", lawson.Tensor.from_pointer(4096, "f32", (2, 3), "cuda:1"))
        with self.assertRaisesRegex(lawson.Error, "'b' lies on cuda:1, the model runs on cuda:0"):
            self.session.run_with_iobinding(io)
        io.bind_input("b", self.b)
        io.bind_output("relu", device="cuda:3")
        with self.assertRaisesRegex(lawson.Error, "cannot be made on cuda:3"):
            self.session.run_with_iobinding(io)

    def test_outputs_outlive_their_session(self):
        io = self.session.io_binding()
        io.bind_input("a", self.a), io.bind_input("b", self.b)
        self.session.run_with_iobinding(io)
        relu = io.get_outputs()[1]
        self.session.close()
        del io
        numpy.testing.assert_array_equal(relu.numpy(), self.want)

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is missing")
        if not REAL or not torch.cuda.is_available():
            self.skipTest("needs a GPU (LAWSON_TEST_GPU=1)")
        a, b = (torch.from_numpy(array).cuda() for array in (self.a, self.b))
        given = torch.empty_like(a)
        io = self.session.io_binding()
        io.bind_input("a", a), io.bind_input("b", b), io.bind_output("add", given)
        io.enqueue(torch.cuda.current_stream().cuda_stream)
        relu = torch.from_dlpack(io.get_outputs()[1])
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(given, a + b))
        self.assertTrue(torch.equal(relu, torch.relu(a + b)))
        a += 1
        io.enqueue(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(relu, torch.relu(a + b)))  # the same memory
        self.assertEqual(relu.data_ptr(), io.get_outputs()[1].pointer)


if __name__ == "__main__":
    tap.main()
