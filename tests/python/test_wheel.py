#!/usr/bin/env python3
"""The wheel: built by its PEP 517 back end around the library of this build, installed into a fresh
virtual environment, used there from another folder."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("LW_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))
BUILD = os.environ.get("LW_BUILD_DIR", os.path.join(ROOT, "build", "release"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import tap  # noqa: E402
import tinyonnx as tx  # noqa: E402

try:
    import numpy
    import scikit_build_core  # noqa: F401
    MISSING = None
except ImportError as error:
    MISSING = str(error)

PROGRAM = """
import lawson, numpy, os, sys
assert os.path.dirname(lawson.__file__).startswith(sys.prefix), lawson.__file__
from lawson import _library
assert next(_library._candidates()).startswith(sys.prefix)
with lawson.Session("net.onnx", device="cpu", cache="") as s:
    y, = s.run(["y"], {"x": numpy.array([-1, 2], numpy.float32)})
assert y.tolist() == [0, 2], y
print(lawson.__version__)
"""


def clean_environment(**more):
    """Without what would lead Python or lawson back to the checkout."""
    env = {key: value for key, value in os.environ.items()
           if key not in ("PYTHONPATH", "LAWSON_LIBRARY", "LD_LIBRARY_PATH")}
    return {**env, **more}


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if MISSING or tap.build_is_sanitized():
            raise unittest.SkipTest(MISSING or "a sanitizer build does not load into Python")
        cls.folder = tempfile.TemporaryDirectory(prefix="lw_wheel_")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.dir = cls.folder.name
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
            "--no-build-isolation", "--no-deps", "--no-index", "-w", cls.dir,
            "-C", f"cmake.define.LW_PREBUILT={BUILD}/liblawson.so",
            "-C", f"build-dir={cls.dir}/build", ROOT, env=clean_environment())
        cls.wheel, = glob.glob(os.path.join(cls.dir, "*.whl"))

    def test_holds_what_it_needs(self):
        with zipfile.ZipFile(self.wheel) as file:
            names = file.namelist()
            metadata = next(n for n in names if n.endswith(".dist-info/METADATA"))
            text = file.read(metadata).decode()
        sources = {f"lawson/{name}" for name in os.listdir(os.path.join(ROOT, "python", "lawson"))
                   if name.endswith((".py", ".typed"))}
        package = {name for name in names if name.startswith("lawson/")}
        self.assertEqual(package, sources | {"lawson/liblawson.so"})
        self.assertIn("lawson/py.typed", package)
        self.assertIn("Requires-Python", text)
        self.assertRegex(os.path.basename(self.wheel), r"^lawson-[0-9.]+-py3-none-.*linux")

    def test_runs_in_a_fresh_environment(self):
        env = os.path.join(self.dir, "venv")
        venv.create(env, with_pip=False)
        python = os.path.join(env, "bin", "python3")
        site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet",
            "--disable-pip-version-check", "--no-index", "--no-deps", self.wheel,
            env=clean_environment())
        os.symlink(os.path.dirname(numpy.__file__), os.path.join(site, "numpy"))
        libs = os.path.dirname(numpy.__file__) + ".libs"
        if os.path.isdir(libs):
            os.symlink(libs, os.path.join(site, "numpy.libs"))
        with open(os.path.join(self.dir, "net.onnx"), "wb") as file:
            file.write(tx.model([tx.node("Relu", ["x"], ["y"])], [("x", tx.F32, (2,))],
                                [("y", tx.F32, (2,))]))
        printed = run(python, "-c", PROGRAM, cwd=self.dir, env=clean_environment())
        with zipfile.ZipFile(self.wheel) as file:
            version = os.path.basename(file.filename).split("-")[1]
        self.assertEqual(printed.strip(), version)


if __name__ == "__main__":
    tap.main()
