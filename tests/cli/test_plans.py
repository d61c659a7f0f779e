#!/usr/bin/env python3
"""Plans from one start to the next: the cache of plans, plan files, lawson compile, lawson cache."""
import json
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import tap  # noqa: E402
import tinyonnx as tx  # noqa: E402
from test_commands import CLI, UNSUPPORTED, USAGE, INVALID, Command  # noqa: E402

WIDTH = 48


def weights(seed):
    rng = random.Random(seed)
    return [rng.uniform(-1, 1) for _ in range(WIDTH * WIDTH)]


def product_model(values, dims=("batch", WIDTH), opset=17):
    """y = relu(x @ w) + 1"""
    return tx.model([tx.node("MatMul", ["x", "w"], ["p"]), tx.node("Relu", ["p"], ["r"]),
                     tx.node("Add", ["r", "one"], ["y"])],
                    [("x", tx.F32, dims)], [("y", tx.F32, dims)],
                    [("w", tx.F32, (WIDTH, WIDTH), values), ("one", tx.F32, (), [1.0])],
                    opset=opset)


class Plans(Command):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", product_model(weights(1)))
        self.x = self.write("x.npy", tx.npy(tx.F32, (2, WIDTH), [i / 7 for i in range(2 * WIDTH)]))
        self.cache = self.env["LAWSON_CACHE"]
        self.db = os.path.join(self.cache, "kernels.db")

    def start(self, *args, model=None, env=None):
        """(where the plan is from, the output's bytes, standard error)"""
        out = os.path.join(self.dir, "out")
        shutil.rmtree(out, ignore_errors=True)
        done = self.lawson("run", model or self.model, "-d", "cpu", "-i", self.x, "-o", out, "--json",
                           *args, env=env)
        report = json.loads(done.stdout)
        with open(os.path.join(out, "out_0.npy"), "rb") as file:
            return report["origin"], file.read(), done.stderr

    def sql(self, text):
        with sqlite3.connect(self.db) as db:
            return db.execute(text).fetchall()

    def entries(self, *args):
        return json.loads(self.lawson("cache", "list", "--json", *args).stdout)["entries"]


class Second(Plans):
    def test_needs_no_compiler_and_no_kernels(self):
        first = self.start()
        self.assertEqual(first[0], "compiled")
        self.sql("DELETE FROM entry WHERE kind='so'")
        bare = dict(self.env, PATH="/nowhere")
        again = self.start(env=bare)
        self.assertEqual(again, ("cache", first[1], ""))
        self.assertEqual(self.start("--threads", "1")[0], "cache")  # where, not what

    def test_every_weight_counts(self):
        first = self.start()
        self.write("net.onnx", product_model(weights(2)))
        other = self.start()
        self.assertEqual(other[0], "compiled")
        self.assertNotEqual(other[1], first[1])
        changed = weights(1)
        changed[-1] += 50
        self.write("net.onnx", product_model(changed))
        third = self.start()
        self.assertEqual(third[0], "compiled")
        self.assertNotEqual(third[1], first[1])
        self.write("net.onnx", product_model(weights(1)))
        self.assertEqual(self.start()[:2], ("cache", first[1]))

    def test_place_and_name_do_not_count(self):
        first = self.start()
        moved = self.write("elsewhere/other.onnx", product_model(weights(1)))
        self.assertEqual(self.start(model=moved)[:2], ("cache", first[1]))

    def test_options_count(self):
        for args in ((), ("--no-fuse",), ("--policy", "classic")):
            self.assertEqual(self.start(*args)[0], "compiled", args)
        for args in ((), ("--no-fuse",), ("--policy", "classic")):
            self.assertEqual(self.start(*args)[0], "cache", args)
        fused = json.loads(self.lawson("run", self.model, "--dim", "batch=2", "--json", "-d",
                                       "cpu").stdout)
        apart = json.loads(self.lawson("run", self.model, "--dim", "batch=2", "--json", "-d", "cpu",
                                       "--no-fuse").stdout)
        self.assertLess(fused["stats"]["kernels"], apart["stats"]["kernels"])
        self.assertEqual(self.start("--cc", "cc -fno-strict-aliasing")[0], "compiled")

    def test_external_data(self):
        values = weights(3)
        data = struct.pack(f"<{len(values)}f", *values)
        location = tx.chunk(1, "location") + tx.chunk(2, "w.bin")
        w = (tx.number(1, WIDTH) + tx.number(1, WIDTH) + tx.number(2, tx.F32) + tx.chunk(8, "w")
             + tx.chunk(13, location) + tx.number(14, 1))
        graph = (tx.chunk(1, tx.node("MatMul", ["x", "w"], ["y"])) + tx.chunk(2, "g")
                 + tx.chunk(5, w) + tx.chunk(11, tx.value_info("x", tx.F32, (2, WIDTH)))
                 + tx.chunk(12, tx.value_info("y", tx.F32, (2, WIDTH))))
        model = self.write("ext/net.onnx", tx.number(1, 8) + tx.chunk(7, graph)
                           + tx.chunk(8, tx.number(2, 17)))
        self.write("ext/w.bin", data)
        first = self.start(model=model)
        self.assertEqual(self.start(model=model)[:2], ("cache", first[1]))
        self.write("ext/w.bin", data[:-4] + struct.pack("<f", 9.0))
        other = self.start(model=model)
        self.assertEqual(other[0], "compiled")
        self.assertNotEqual(other[1], first[1])
        os.remove(os.path.join(self.dir, "ext/w.bin"))
        self.fails("run", model, "-d", "cpu", code=USAGE, says="w.bin")
        plan = os.path.join(self.dir, "net.lwp")
        self.write("ext/w.bin", data)
        self.lawson("compile", model, "-d", "cpu", "-o", plan)
        shutil.rmtree(os.path.join(self.dir, "ext"))
        self.assertEqual(self.start(model=plan)[1], first[1])

    def test_reports_are_made_of_the_graph(self):
        self.start()
        done = self.lawson("run", self.model, "-d", "cpu", "-i", self.x, "--check")
        self.assertIn("the plan from the cache", done.stdout)
        self.assertIn("ok", done.stdout)
        wide = self.lawson("explain", self.model, "-d", "cpu", "--dim", "batch=2", "--json").stdout
        again = self.lawson("explain", self.model, "-d", "cpu", "--dim", "batch=2", "--json").stdout
        cut = [json.loads(text) for text in (wide, again)]
        for report in cut:
            for key in ("kernels_built", "kernels_cached", "notes"):
                del report[key]
        self.assertEqual(cut[0], cut[1])

    def test_warnings_are_repeated(self):
        model = self.write("new.onnx", product_model(weights(1), dims=(2, WIDTH), opset=900))
        first = self.start(model=model)
        again = self.start(model=model)
        self.assertIn("version 900", first[2])
        self.assertEqual(again[2], first[2])
        self.assertEqual(again[0], "cache")

    def test_every_shape(self):
        ladder = ("--dim", "batch=1,2,4")
        first = self.start(*ladder)
        self.assertEqual(first[0], "compiled")
        names = [e["name"] for e in self.entries("--kind", "plan")]
        self.assertIn(f"net.onnx x=4x{WIDTH}", names)
        self.assertIn(f"net.onnx x=2x{WIDTH}", names)
        self.sql("DELETE FROM entry WHERE kind='so'")
        again = self.start(*ladder, env=dict(self.env, PATH="/nowhere"))
        self.assertEqual(again, ("cache", first[1], first[2]))
        changed = weights(1)
        changed[-1] += 50
        self.write("net.onnx", product_model(changed))
        other = self.start(*ladder)
        self.assertEqual(other[0], "compiled")
        self.assertNotEqual(other[1], first[1])
        report = self.lawson("explain", self.model, "-d", "cpu", *ladder, "--json").stdout
        self.assertTrue(json.loads(report)["groups"])

    def test_off(self):
        off = dict(self.env, LAWSON_CACHE="off")
        self.assertEqual([self.start(env=off)[0] for _ in range(2)], ["compiled"] * 2)


class Damage(Plans):
    def test_flipped_bytes(self):
        first = self.start()
        self.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(self.db, "rb") as file:
            whole = file.read()
        rng = random.Random(5)
        origins = set()
        for i in range(40):
            at = rng.randrange(len(whole)) if i > 3 else (0, 30, 68, 90)[i]
            if 60 <= at < 64:
                continue  # the number of the file's version: that of a newer one, it may be
            for name in os.listdir(self.cache):
                os.remove(os.path.join(self.cache, name))
            with open(self.db, "wb") as file:
                file.write(whole[:at] + bytes([whole[at] ^ 1 << i % 8]) + whole[at + 1:])
            os.chmod(self.db, 0o600)
            origin, output, said = self.start()
            self.assertEqual(output, first[1], at)
            self.assertTrue(all("warning" in line for line in said.splitlines()), said)
            origins.add(origin)
            self.assertEqual(self.start()[:2], ("cache", first[1]), at)
        self.assertEqual(origins, {"cache", "compiled"})

    def test_damaged_plan(self):
        first = self.start()
        for column in ("image", "checksum"):
            self.sql(f"UPDATE entry SET {column}=zeroblob(length({column})) WHERE kind='plan'")
            origin, output, said = self.start()
            self.assertEqual((origin, output), ("compiled", first[1]))
            self.assertIn("1 damaged entry was removed from the cache and built again", said)
            self.assertEqual(self.start(), ("cache", first[1], ""))

    def test_eight_at_once(self):
        for round in range(2):
            if round == 1:
                with open(self.db, "r+b") as file:
                    file.write(b"no database")
            commands = [subprocess.Popen(
                [CLI, "run", self.model, "-d", "cpu", "-i", self.x, "-o", f"out{i}"],
                cwd=self.dir, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                text=True) for i in range(8)]
            said = [c.communicate(timeout=300)[1] for c in commands]
            self.assertEqual([c.returncode for c in commands], [0] * 8, said)
            outputs = set()
            for i in range(8):
                with open(os.path.join(self.dir, f"out{i}/out_0.npy"), "rb") as file:
                    outputs.add(file.read())
            self.assertEqual(len(outputs), 1)
            self.assertEqual(self.start()[:2], ("cache", outputs.pop()))

    def warns(self, says, *args):
        origin, output, said = self.start(*args)
        self.assertEqual(origin, "compiled")
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn(says, said)
        return output

    def test_folders_that_are_none(self):
        want = self.start()[1]
        folder = os.path.join(self.dir, "f")
        file = os.path.join(folder, "kernels.db")
        os.makedirs(file, mode=0o700)
        self.assertEqual(self.warns("kernels.db in it is a folder", "--cache", folder), want)
        os.rmdir(file)
        with sqlite3.connect(file) as db:
            db.execute("CREATE TABLE mine(x)")
        os.chmod(folder, 0o700)
        os.chmod(file, 0o600)
        self.warns("the database of another program", "--cache", folder)
        shutil.copy(self.db, file)
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version=1000")
        self.warns("made by a newer lawson", "--cache", folder)
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version=2")
            db.execute("ALTER TABLE entry RENAME COLUMN image TO picture")
        self.warns("its table is not what it should be", "--cache", folder)
        self.assertTrue(os.path.exists(file + ".bad"))
        self.assertEqual(self.start("--cache", folder), ("cache", want, ""))

    def test_any_name_will_do(self):
        folder = os.fsdecode(os.path.join(os.fsencode(self.dir), b"n\xff\xfe% ?#"))
        self.assertEqual([self.start("--cache", folder)[0] for _ in range(2)],
                         ["compiled", "cache"])


class Files(Plans):
    def setUp(self):
        super().setUp()
        self.plan = os.path.join(self.dir, "net.lwp")
        self.lawson("compile", self.model, "-d", "cpu", "--dim", "batch=2")

    def test_run_and_bench(self):
        want = self.start()[1]
        bare = dict(self.env, PATH="/nowhere", LAWSON_CACHE="off")
        os.remove(self.model)
        self.assertEqual(self.start(model=self.plan, env=bare), ("file", want, ""))
        done = self.lawson("bench", self.plan, "-n", "5", "--json", "-", env=bare)
        self.assertEqual(json.loads(done.stdout)["results"][0]["kernels_built"], 0)
        self.lawson("run", self.plan, "-d", "null", env=bare)

    def test_json_and_names(self):
        done = self.lawson("compile", self.model, "--dim", "batch=2", "-d", "cpu", "--json", "-o",
                           "other.lwp")
        report = json.loads(done.stdout)
        self.assertEqual(report["file"], "other.lwp")
        self.assertEqual(report["target"], "cpu")
        self.assertEqual(report["bytes"], os.path.getsize(os.path.join(self.dir, "other.lwp")))
        self.fails("compile", self.model, "--dim", "batch=2", "-o", "no/such/folder.lwp", "-d", "cpu",
                   code=USAGE, says="no/such/folder.lwp")

    def test_refusals(self):
        says = self.fails
        says("run", self.plan, "--dim", "batch=2", code=USAGE, says="option dim says how to compile")
        says("run", self.plan, "--no-fuse", code=USAGE, says="option fuse")
        says("run", self.plan, "--target", "cuda:sm_80", code=USAGE, says="compiled for cpu")
        says("run", self.plan, "--check", code=USAGE, says="holds no graph")
        says("run", self.plan, "-i", self.x, "-i", self.x, code=USAGE, says="only 1 inputs")
        says("explain", self.plan, code=USAGE, says="is a compiled plan")
        says("inspect", self.plan, code=USAGE, says="is a compiled plan")
        says("compile", self.plan, code=USAGE, says="is a compiled plan already")
        wrong = self.write("w.npy", tx.npy(tx.F32, (3, WIDTH), [0] * 3 * WIDTH))
        says("run", self.plan, "-i", wrong, code=USAGE, says=f"[2, {WIDTH}]")

    def test_damaged(self):
        with open(self.plan, "rb") as file:
            whole = file.read()
        rng = random.Random(2)
        for i in range(12):
            at = rng.randrange(12, len(whole))
            self.write("net.lwp", whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
            self.fails("run", self.plan, code=INVALID, says="the plan file is damaged")
            self.write("net.lwp", whole[:rng.randrange(8, len(whole))])
            self.fails("run", self.plan, code=INVALID, says="the plan file is damaged")
        self.write("net.lwp", whole[:8] + b"\7" + whole[9:])
        self.fails("run", self.plan, code=UNSUPPORTED, says="a plan of format 7")

    def test_for_another_device(self):
        if os.environ.get("LAWSON_ALLOW_NO_NVRTC"):
            self.skipTest("no NVRTC")
        done = subprocess.run([CLI, "compile", self.model, "--dim", "batch=2", "--target",
                               "cuda:sm_80"], cwd=self.dir, env=self.env, capture_output=True,
                              text=True)
        if done.returncode == 5:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.fails("run", self.plan, "-d", "cpu", code=UNSUPPORTED,
                   says="compiled for cuda:sm_80 and does not run on device cpu")


class LookAlikes(Plans):
    """Plans for GPUs, on the look-alikes of the driver and of NVRTC."""

    def setUp(self):
        super().setUp()
        build = os.environ.get("LW_BUILD_DIR", os.path.dirname(CLI))
        self.env["LAWSON_CUDA"] = os.path.join(build, "libcuda_standin.so")
        self.env["LAWSON_NVRTC"] = os.path.join(build, "libnvrtc_standin.so")
        if not os.path.exists(self.env["LAWSON_CUDA"]):
            self.skipTest("no look-alikes")

    def test_second_start_and_file(self):
        args = ("run", "-d", "cuda", "-i", self.x, "-o", "out", "--json")
        hidden = dict(self.env, LAWSON_NVRTC="/nowhere")
        outputs = []

        def start(model, env):
            report = json.loads(self.lawson(*args, model, env=env).stdout)
            with open(os.path.join(self.dir, "out/out_0.npy"), "rb") as file:
                outputs.append(file.read())
            return report["origin"], report["target"].split(":")[0]

        self.assertEqual(start(self.model, self.env), ("compiled", "cuda"))
        self.sql("DELETE FROM entry WHERE kind='cubin'")
        self.assertEqual(start(self.model, hidden), ("cache", "cuda"))
        self.lawson("compile", self.model, "-d", "cuda", "--dim", "batch=2", "-o", "net.lwp")
        self.assertEqual(start("net.lwp", dict(hidden, LAWSON_CACHE="off")), ("file", "cuda"))
        self.assertEqual(len(set(outputs)), 1)
        self.fails("run", "net.lwp", "-d", "cpu", code=UNSUPPORTED, says="does not run on device cpu")


class Cache(Plans):
    def test_list_clear_prune(self):
        self.assertEqual(self.entries(), [])
        self.assertFalse(os.path.exists(self.cache))  # looking makes nothing
        self.start()
        self.start("--no-fuse")
        kinds = [e["kind"] for e in self.entries()]
        self.assertEqual(kinds.count("plan"), 2)
        self.assertGreaterEqual(kinds.count("so"), 2)
        text = self.lawson("cache", "list", "--kind", "plan").stdout
        self.assertIn("2 plans", text)
        self.assertIn("net.onnx", text)
        self.sql("UPDATE entry SET used=used-10*86400 WHERE kind='plan'")
        self.assertEqual([e["kind"] for e in self.entries()][-2:], ["plan", "plan"])
        pruned = json.loads(self.lawson("cache", "prune", "--unused-for", "5", "--json").stdout)
        self.assertEqual(pruned["removed"], 2)
        self.assertEqual(self.entries("--kind", "plan"), [])
        left = pruned["left_bytes"]
        self.lawson("cache", "prune", "--max-size", str(left // 2))
        self.assertLess(sum(e["bytes"] for e in self.entries()), left // 2)
        self.lawson("cache", "clear")
        self.assertEqual(self.entries(), [])
        self.assertLess(os.path.getsize(self.db), 100000)
        self.assertEqual(self.start()[0], "compiled")

    def test_limit(self):
        size = 0
        for i in range(16):
            self.write("net.onnx", product_model(weights(i)))
            self.start("--cache-limit", "400K")
            size = max(size, sum(e["bytes"] for e in self.entries()))
        self.assertLess(size, 600 << 10)
        self.assertEqual(self.start("--cache-limit", "400K")[0], "cache")  # the last one is there

    def test_wrong_use(self):
        self.fails("cache", code=USAGE, says="cache needs list|clear|prune")
        self.fails("cache", "lst", code=USAGE, says="did you mean 'list'?")
        self.fails("cache", "prune", code=USAGE, says="--max-size SIZE or --unused-for DAYS")
        self.fails("cache", "prune", "--max-size", "lots", code=USAGE, says="500M")
        self.fails("cache", "list", "--max-size", "1G", code=USAGE, says="'lawson cache prune'")
        self.fails("cache", "list", "--kind", "cat", code=USAGE, says="plan, so, cubin or tool")
        self.fails("cache", "list", "--cache", "off", code=USAGE, says="there is no cache")
        self.fails("run", self.model, "--cache-limit", "big", code=USAGE, says="500M")
        self.assertIn("clearing it costs compile time alone",
                      self.lawson("cache", "--help").stdout)


class Words(Plans):
    def test_shapes(self):
        for shape in ("3xx3", "3x", "x3", "3,,3", "[3, 3", "3, 3]", "3 3"):
            self.fails("run", self.model, "--shape", f"x={shape}", code=USAGE,
                       says="INPUT=2x3x64x64")

    def test_contradictions(self):
        self.fails("run", self.model, "--dim", "batch=2", "--dim", "batch=3", code=USAGE,
                   says="--dim batch=2 and --dim batch=3 contradict each other")
        self.fails("run", self.model, "--shape", f"x=2x{WIDTH}", "--shape", f"x=3x{WIDTH}",
                   code=USAGE, says="contradict each other")
        self.lawson("run", self.model, "--dim", "batch=2", "--dim", "batch=2", "-d", "null")

    def test_compiler_in_quotes(self):
        cc = self.write("a folder/my cc", "#!/bin/sh\nexec cc \"$@\"\n")
        os.chmod(cc, 0o755)
        self.start("--cc", f"'{cc}' -O1")
        self.assertIn(cc, [e["name"] for e in self.entries("--kind", "tool")])
        self.start("--cc", f'"{cc}" "-DA=1 2"')
        self.start("--cc", cc.replace(" ", "\\ "))
        self.fails("run", self.model, "--dim", "batch=2", "-d", "cpu", "--cc", f"'{cc}", code=USAGE,
                   says="a quote is not closed")

    def test_killed_while_compiling(self):
        note = os.path.join(self.dir, "where")
        cc = self.write("slow", f'#!/bin/sh\ncase "$*" in *kernels.c*) echo $$ "$TMPDIR" > {note}.new; '
                                f'mv {note}.new {note}; sleep 600;; *) exec cc "$@";; esac\n')
        os.chmod(cc, 0o755)
        process = subprocess.Popen([CLI, "run", self.model, "-d", "cpu", "-i", self.x, "--cc", cc],
                                   cwd=self.dir, env=self.env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while not os.path.exists(note):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        with open(note, encoding="utf-8") as file:
            group, folder = file.read().split()
        self.addCleanup(os.killpg, int(group), signal.SIGKILL)
        self.start()  # while it is at work its folder stays
        self.assertTrue(os.path.isdir(folder))
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertTrue(os.path.isdir(folder))
        self.start("--no-fuse")  # something to compile
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    tap.main()
