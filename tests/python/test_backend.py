#!/usr/bin/env python3
"""lawson.backend under the onnx package's own tests, as pytest collects them.

  python3 tests/python/test_backend.py                       what CI runs: the choice of CHOSEN, on the CPU
  LAWSON_BACKEND_TESTS=all pytest -q tests/python/test_backend.py        all of them (several minutes)
  LAWSON_BACKEND_TESTS='lstm|gru' pytest -q tests/python/test_backend.py

A test whose model lawson says it does not support is skipped with what was said; wrong results and
other errors fail. Types that lawson lacks (strings, complex numbers, int4) are part of that.
"""
import os
import re
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("LW_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "lib"), os.path.join(ROOT, "python")]
BUILD = os.environ.get("LW_BUILD_DIR")
if BUILD:
    os.environ["LAWSON_LIBRARY"] = os.path.join(BUILD, "liblawson.so")
import tap  # noqa: E402

try:
    if tap.build_is_sanitized():
        raise ImportError("a sanitizer build does not load into Python")
    import numpy
    import onnx.backend.test
    import pytest
    import lawson
    import lawson.backend as backend
    MISSING = None
except ImportError as error:
    MISSING = str(error)

# Some of every kind: element-wise, broadcast, reductions, products, convolutions, recurrent layers,
# normalizations, bf16, control flow, expanded functions, optional inputs; and models.
CHOSEN = (r"^test_(relu|add_bcast|pow|clip_default_min|softmax_axis_1|reduce_sum_keepdims_random"
          r"|gemm_all_attributes|matmul_3d|conv_with_strides_padding|averagepool_2d_ceil|gru_defaults"
          r"|layer_normalization_2d_axis1|cast_FLOAT_to_BFLOAT16|cast_FLOAT16_to_FLOAT|if|loop11"
          r"|gather_elements_0|slice_neg_steps|resize_upsample_scales_linear|topk|where_example"
          r"|quantizelinear_axis|attention_4d|einsum_inner_prod|nllloss_NC|gelu_tanh_1_expanded"
          r"|expand_shape_model[1-4]|single_relu_model|GLU|operator_pow|squeezenet)_cpu$")


def chosen():
    wanted = os.environ.get("LAWSON_BACKEND_TESTS", "")
    return {"": CHOSEN, "all": "."}.get(wanted, wanted)


def known_differences():
    """The cases of tests/onnx/known.txt, whose results are meant to differ from the suite's."""
    with open(os.path.join(ROOT, "tests", "onnx", "known.txt"), encoding="utf-8") as file:
        names = [line.split()[0].partition("/")[2] for line in file
                 if line.strip() and not line.startswith("#")]
    return r"^(" + "|".join(names) + r")_(cpu|cuda)$"


def or_skip(function):
    """The function, with what it does not support as a skipped test: that is an answer, no failure."""
    def wrapped(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except lawson.Error as error:
            if error.status == lawson.backend.UNSUPPORTED:
                raise unittest.SkipTest(str(error)) from error
            raise
    return wrapped


if not MISSING:
    class Tested(backend.LawsonBackend):
        """The backend, with what it does not support as skipped tests."""

        @classmethod
        def is_compatible(cls, model, device="CPU", **kwargs):
            return True  # prepare() says why not

        @classmethod
        def prepare(cls, model, device="CPU", **kwargs):
            rep = or_skip(super().prepare)(model, device, cache="", **kwargs)
            rep.run = or_skip(rep.run)  # open dimensions are compiled for there
            return rep

    if "ONNX_HOME" not in os.environ:  # where the light models' generated data goes
        HOME = tempfile.TemporaryDirectory(prefix="lw_onnx_")
        os.environ["ONNX_HOME"] = HOME.name
    SUITE = onnx.backend.test.BackendTest(Tested, __name__)
    SUITE.include(chosen())
    SUITE.exclude(known_differences())
    # What is not chosen does not appear at all: hundreds of skips would say nothing.
    for name, case in SUITE.test_cases.items():
        for test in [t for t in dir(case) if t.startswith("test_")]:
            if not re.search(chosen(), test):
                delattr(case, test)
        globals()[name] = case

    class Interface(unittest.TestCase):
        """What the base class promises beyond its tests."""

        def test_devices(self):
            self.assertTrue(backend.supports_device("CPU"))
            self.assertFalse(backend.supports_device("TPU"))

        def test_run_node(self):
            x = numpy.array([[1, -2], [3, -4]], numpy.float32)
            node = onnx.helper.make_node("Add", ["x", "x"], ["y"])
            y, = backend.run_node(node, [x])
            numpy.testing.assert_array_equal(y, x + x)
            node = onnx.helper.make_node("ReduceSum", ["x"], ["y"], axes=[1], keepdims=0)
            y, = backend.run_node(node, {"x": x}, opset_version=11,
                                  outputs_info=[(numpy.float32, (2,))])
            numpy.testing.assert_array_equal(y, [-1, -1])
            with self.assertRaises(onnx.checker.ValidationError):
                backend.run_node(onnx.helper.make_node("Frobnicate", ["x"], ["y"]), [x])

        def test_run_model(self):
            port = onnx.helper.make_tensor_value_info
            node = onnx.helper.make_node("Relu", ["x"], ["1"])
            model = onnx.helper.make_model(onnx.helper.make_graph(
                [node], "g", [port("x", 1, ["n"])], [port("1", 1, ["n"])]))
            for n in (2, 3):
                result = backend.run_model(model, numpy.arange(n, dtype=numpy.float32) - 1)
                numpy.testing.assert_array_equal(result["1"], result[0])
                numpy.testing.assert_array_equal(result[0], [0, 0, 1][:n])
            self.assertTrue(backend.is_compatible(model))
            node.op_type, node.domain = "Frobnicate", "nobody"
            model.graph.node[0].CopyFrom(node)
            model.opset_import.append(onnx.helper.make_opsetid("nobody", 1))
            self.assertFalse(backend.is_compatible(model))


class Lines:
    """pytest's results as the lines that tools/run_tests counts."""

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome == "skipped":
            word = "not ok" if report.failed else "ok"
            why = f" # SKIP {report.longrepr[2]}" if report.skipped else ""
            print(f"\n{word} {report.nodeid.partition('::')[2]}{why}".replace("\n", " ").strip())


def main():
    if MISSING:
        print(f"ok backend # SKIP {MISSING}")
        return 77
    return pytest.main(["-q", "-p", "no:cacheprovider", "--capture=no", "--rootdir", HERE, *sys.argv[1:],
                        os.path.abspath(__file__)], plugins=[Lines()])


if __name__ == "__main__":
    sys.exit(main())
