#!/usr/bin/env python3
"""The models and small cases of ../shared through the command line on the CPU, fused and with a kernel
for every node. Cases whose arrays are generated are made first, in a copy in the build folder.

Prints one line "ok fused models/bert_tiny" a case, for tools/run_tests. The hostile files, T17*, are
run fused by tests/cli/test_commands.py; here they are run unfused."""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.environ.get("LW_SOURCE_DIR", os.path.join(HERE, "../..")))
BUILD = os.path.abspath(os.environ.get("LW_BUILD_DIR", os.path.join(ROOT, "build/release")))
CLI = os.environ.get("LW_CLI", os.path.join(BUILD, "lawson"))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")
SKIPPED = 77

# T9a asks for merged products, S2b for a chain of larger ones: neither is what lawson does yet.
CASES = ("T1[ab]", "T2*", "T3*", "T5*", "T7*", "T9b", "T10*", "T12*", "T15*", "T16*", "S2a")
HOSTILE = ("T17*",)


def python_with(*modules):
    """A Python that has these modules, or None."""
    for python in (os.path.join(ROOT, "build/venv/bin/python3"), sys.executable, "python3"):
        try:
            done = subprocess.run([python, "-c", "import " + ", ".join(modules)],
                                  capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def content_hash(paths):
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()


def generated_cases():
    """(folder with all cases and their arrays, None), or (None, why there is none)."""
    sources = [os.path.join(SHARED, "cases", name) for name in ("kit.py", "cases.py")]
    folder = os.path.join(BUILD, "cases")
    done_file = os.path.join(folder, "generated")
    stamp = content_hash(sources)
    if os.path.exists(done_file):
        with open(done_file, encoding="utf-8") as file:
            if file.read() == stamp:
                return folder, None
    python = python_with("numpy", "onnx")
    if python is None:
        return None, "numpy and onnx are missing (tools/setup)"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for source in sources:
        shutil.copyfile(source, os.path.join(folder, os.path.basename(source)))
    done = subprocess.run([python, "cases.py", "--big"], cwd=folder, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError("cases.py --big failed:\n" + done.stderr)
    with open(done_file, "w", encoding="utf-8") as file:
        file.write(stamp)
    return folder, None


def is_generated(folder):
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as file:
        return "gen" in json.load(file)


def matching(*patterns):
    """Folders of ../shared/cases, each replaced by its generated copy where it needs one."""
    folders = [f for p in patterns for f in sorted(glob.glob(os.path.join(SHARED, "cases", p)))]
    if not any(is_generated(f) for f in folders):
        return folders, []
    made, why = generated_cases()
    if made is None:
        return ([f for f in folders if not is_generated(f)],
                [(f, why) for f in folders if is_generated(f)])
    return [os.path.join(made, os.path.basename(f)) if is_generated(f) else f for f in folders], []


def name_of(folder):
    return os.path.join(os.path.basename(os.path.dirname(folder)), os.path.basename(folder))


def run(label, folders, *options):
    """Runs |folders| and prints a line for each; the number of failures."""
    with tempfile.TemporaryDirectory(prefix="lw_cases_") as temp:
        report = os.path.join(temp, "report.json")
        command = [CLI, "check", "--device", "cpu", "--cache", os.path.join(temp, "cache"),
                   "--jobs", str(os.cpu_count() or 1), "--time-factor", "10", "--json", report,
                   *options, *folders]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not os.path.exists(report):
            print(f"not ok {label}: {done.returncode}\n# " + done.stderr.replace("\n", "\n# "))
            return 1
        with open(report, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
    failed = 0
    for folder, case in zip(folders, cases, strict=True):
        good = case["result"] == "passed"
        failed += not good
        print(f"{'ok' if good else 'not ok'} {label} {name_of(folder)}")
        if not good:
            print(f"# {case['result']}: {case.get('reason')}")
    return failed


def main():
    if not os.path.isdir(os.path.join(SHARED, "cases")):
        print("there is no ../shared")
        return SKIPPED
    models = sorted(os.path.dirname(f) for f in glob.glob(SHARED + "/models/*/model.onnx"))
    cases, left_out = matching(*CASES)
    hostile, _ = matching(*HOSTILE)
    for folder, why in left_out:
        print(f"ok {name_of(folder)} # SKIP {why}")
    failed = run("fused", models + cases)
    failed += run("unfused", models + cases + hostile, "--no-fuse")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
