#!/usr/bin/env python3
"""The networks and cases of ../shared (beside the checkout) through `lawson check` and `lawson run`
on the CPU: fused, unfused, and with other batch sizes."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import tap  # noqa: E402
import tinyonnx as tx  # noqa: E402

CLI = os.environ.get("LW_CLI", "lawson")
ROOT = os.environ.get("LW_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))
SHARED = os.path.join(os.path.dirname(os.path.abspath(ROOT)), "shared")
CASES = ("T1?", "T2?", "T3?", "T5?", "T7?", "T9b", "T10*", "T12*", "T15*", "T16*", "T17*", "S2a")
SYMBOLIC = ("resnet_tiny", "resnet_tiny_script13")


class Shared(unittest.TestCase):
    cache = None

    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.mkdtemp(prefix="lw_shared_")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.cache, ignore_errors=True)

    def folders(self, *patterns, root=SHARED):
        found = [f for p in patterns for f in sorted(glob.glob(os.path.join(root, p)))
                 if os.path.isfile(os.path.join(f, "model.onnx"))]
        if not found:
            self.skipTest(f"there is no {root}")
        return found

    def lawson(self, command, *args):
        done = subprocess.run([CLI, command, "--device", "cpu", *args], capture_output=True,
                              text=True, env=dict(os.environ, LAWSON_CACHE=self.cache + "/cache"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def check(self, folders, *args):
        jobs = str(os.cpu_count() or 1)
        self.lawson("check", "--jobs", jobs, "--time-factor", "20" if tap.build_is_sanitized() else "5", *args,
                    *folders)

    def test_models_fused(self):
        self.check(self.folders("models/*"))

    def test_models_unfused(self):
        if tap.build_is_sanitized():
            self.skipTest("too slow under a sanitizer")
        self.check(self.folders("models/*"), "--no-fuse")

    def test_cases(self):
        self.check(self.folders(*(os.path.join("cases", c) for c in CASES)))

    def test_cases_unfused(self):
        if tap.build_is_sanitized():
            self.skipTest("too slow under a sanitizer")
        self.check(self.folders(*(os.path.join("cases", c) for c in CASES)), "--no-fuse")

    def test_generated_cases(self):
        """The arrays that are too big to keep, made by a copy of the generator."""
        source = os.path.dirname(self.folders("cases/T1a")[0])
        if tap.build_is_sanitized():
            self.skipTest("too slow under a sanitizer")
        if subprocess.run([sys.executable, "-c", "import numpy, onnx"],
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("NumPy or onnx is missing")
        copy = os.path.join(self.cache, "cases")
        os.mkdir(copy)
        for name in ("cases.py", "kit.py"):
            shutil.copy(os.path.join(source, name), copy)
        subprocess.run([sys.executable, "cases.py", "--big"], cwd=copy, check=True,
                       capture_output=True)
        self.check(self.folders("T12*", root=copy))
        self.check(self.folders("T12*", root=copy), "--no-fuse")

    def test_rows_do_not_depend_on_the_batch(self):
        """At batch 1, 2 and 7 every row comes out the same, but for the order of its sums: another
        batch may get another tiling."""
        for name in SYMBOLIC:
            folder = self.folders(f"models/{name}")[0]
            model = os.path.join(folder, "model.onnx")
            _, shape, values = tx.read_npy(os.path.join(folder, "in_0.npy"))
            row = len(values) // shape[0]
            rows = [values[i * row:(i + 1) * row] for i in range(shape[0])]
            seven = [[x * (1 + i / 8) for x in rows[i % len(rows)]] for i in range(7)]
            results = {}
            for batch in (7, 2, 1):
                path = os.path.join(self.cache, f"{name}_{batch}.npy")
                with open(path, "wb") as file:
                    file.write(tx.npy(tx.F32, (batch, *shape[1:]), sum(seven[:batch], [])))
                out = os.path.join(self.cache, f"{name}_{batch}")
                self.lawson("run", model, "--input", path, "--output-dir", out)
                results[batch] = tx.read_npy(os.path.join(out, "out_0.npy"))
            for batch, (_, out_shape, out_values) in results.items():
                self.assertEqual(out_shape[0], batch)
                worst = max(abs(x - y) / max(1, abs(y)) for x, y in zip(out_values, results[7][2]))
                self.assertLess(worst, 1e-5, f"{name} at {batch}")


if __name__ == "__main__":
    tap.main()
