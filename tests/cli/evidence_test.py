# SPDX-License-Identifier: MIT
"""`fla bench cmd`, `fla evidence` and `fla check` as a user meets them, and the table of requirements.

Needs FLA (the binary) and SOURCE (the repository) in the environment; ctest sets both.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import jsonschema

FLA = os.environ["FLA"]
SOURCE = Path(os.environ["SOURCE"])
TIME = "regex:ms=time ([0-9.]+)"


def fla(*arguments, **options):
    return subprocess.run([FLA, *arguments], capture_output=True, text=True, timeout=240, **options)


class Requirements(unittest.TestCase):
    """Every requirement has a command, an option or a rule that exists."""

    def test_table(self):
        rows = [line.split("\t") for line in (SOURCE / "tests/perf/requirements.tsv").read_text().splitlines()]
        self.assertEqual([row[0] for row in rows], [f"S{number:02}" for number in range(1, 59)])
        helps = {}
        for requirement in rows:
            self.assertGreater(len(requirement), 2, requirement)
            for reference in requirement[2:]:
                kind, name = reference.split(":", 1)
                with self.subTest(requirement[0], reference=reference):
                    if kind == "rule":
                        continue  # check_test.cpp knows them
                    command, _, option = name.partition(" --")
                    if command not in helps:
                        done = fla(*command.split(), "--help")
                        self.assertEqual(done.returncode, 0, f"fla {command}: {done.stderr}")
                        helps[command] = done.stdout
                    if kind == "option":
                        self.assertRegex(helps[command], rf"--{option}\b")


class BenchCmd(unittest.TestCase):
    def test_wall_rounds_and_json(self):
        done = fla("bench", "cmd", "--label", "nap", "--rounds", "6", "--json", "-", "--", "sleep", "0.02")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        jsonschema.validate(document, json.loads((SOURCE / "schemas/fla.results.1.schema.json").read_text()))
        row = document["rows"][0]
        self.assertEqual(row["key"], "nap|run|foreign|unknown|-|dense")
        self.assertGreater(row["median_s"], 0.02)
        self.assertEqual(len(row["blocks"]), 6)
        self.assertIsNone(row["tokens_per_s"])

    def test_json_placeholder(self):
        row = {"op": "chunk_kda", "mode": "fwd", "B": 1, "T": 8, "H": 2, "D": 4, "median_ms": 2}
        script = f"""echo '{json.dumps({"results": [row]})}' > "$0" """
        done = fla("bench", "cmd", "--parse", "fla-ops", "--json", "-", "--", "sh", "-c", script, "{json}")
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)["rows"][0]
        self.assertEqual(row["median_s"], 0.002)
        self.assertEqual(row["tokens_per_s"], 4000)

    def test_statuses(self):
        for arguments, status, says in (
                (["--parse", "nonsense", "--", "true"], 2, "unknown parser"),
                (["--parse", "wall"], 2, "no command"),
                (["--", "no-such-program-of-fla"], 6, "cannot start"),
                (["--", "sh", "-c", "echo bad >&2; exit 3"], 6, "status 3: bad"),
                (["--timeout", "0.1", "--", "sleep", "9"], 6, "too long"),
                (["--parse", "fla-train", "--", "echo", "hello"], 9, "throughput:"),
                (["--parse", "fla-ops", "--", "true"], 9, "{json}")):
            with self.subTest(arguments):
                done = fla("bench", "cmd", *arguments)
                self.assertEqual(done.returncode, status, done)
                self.assertIn(says, done.stderr)


class Repository(unittest.TestCase):
    """A repository whose bench prints the time that a file holds."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.repo = Path(self.folder.name) / "repo"
        (self.repo / "src").mkdir(parents=True)
        self.env = os.environ | {"XDG_CACHE_HOME": str(Path(self.folder.name) / "cache"), "HOME": self.folder.name}
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "t")
        self.git("config", "user.email", "t@localhost")
        self.write("src/kernel.cu", "one\n")
        self.write("time.txt", "10.0\n")
        self.write("bench.sh", "sleep 0.01; echo time $(cat time.txt) ms\n")
        self.commit("base")

    def write(self, name, text):
        (self.repo / name).write_text(text)

    def git(self, *arguments):
        command = ["git", "-C", str(self.repo), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def fla(self, *arguments):
        return fla(*arguments, cwd=self.repo, env=self.env)

    def evidence(self, *more):
        return ["evidence", "--base", "main", "--bench", "op@dense=sh bench.sh", "--parse", f"op={TIME}", "--bench",
                "packed@varlen=sh bench.sh", "--parse", f"packed={TIME}", "--rounds", "6", "--kernel", "kernel", *more]

    def test_from_plan_to_check(self):
        self.write("src/kernel.cu", "two\n")
        self.write("time.txt", "9.0\n")
        planned = self.fla(*self.evidence("--plan-only"))
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("op@dense", planned.stdout)
        self.assertFalse((self.repo / "profile").exists())

        done = self.fla(*self.evidence("--run", "first"))
        self.assertEqual(done.returncode, 1, done.stderr)  # no GPU, not committed, nothing concluded
        for rule in ("R-TREE-2", "R-HW-2", "R-CONC-1", "R-MR-1"):
            self.assertRegex(done.stdout, rf"(?m)^{rule} +fail")
        for rule in ("R-BENCH-5", "R-COV-1", "R-COV-2", "R-GIT-2", "R-INTEG-1", "R-NCU-5"):
            self.assertRegex(done.stdout, rf"(?m)^{rule} +pass")
        run = self.repo / "profile/first"
        for name in ("evidence.json", "MR.md", "REPORT.md", "report.html", "analysis/journal.jsonl",
                     "analysis/plan.json"):
            self.assertTrue((run / name).exists(), name)
        self.assertEqual(json.loads((run / "evidence.json").read_text())["verdict"], "improvement")
        self.assertNotIn("profile", self.git("status", "--porcelain"))
        self.assertRegex(self.fla("history", "list").stdout, r"(?m) first +evidence .* improvement ")
        self.assertIn("op|ms|foreign|", self.fla("history", "show", "first").stdout)

        self.commit("change")
        for arguments in (["--summary", "Faster.", "--risk", "None.", "--impact", "All."],
                          ["--conclusion", "improvement", "--text", "A tenth faster."],
                          ["--row", "provenance", "--text", "a shell script of the tree"]):
            explained = self.fla("evidence", "explain", *arguments)
            self.assertEqual(explained.returncode, 0, explained.stderr)
        checked = self.fla("check")
        failing = re.findall(r"(?m)^(R-\S+) +fail", checked.stdout)
        self.assertEqual(failing, ["R-HW-2"], checked.stdout)
        self.assertEqual(checked.returncode, 1)
        self.assertEqual(self.fla("check", "--author", "human").returncode, 0)
        machine = self.fla("check", "first", "--json", "-")
        self.assertEqual(json.loads(machine.stdout)["complete"], False)

        alone = fla("check", "--mr-body", str(run / "MR.md"), cwd=self.folder.name)
        self.assertEqual(re.findall(r"(?m)^(R-\S+) +fail", alone.stdout), ["R-HW-2"], alone.stdout)

        (run / "analysis/plan.json").write_text("{}")
        self.assertRegex(self.fla("check").stdout, r"(?m)^R-INTEG-1 +fail")

    def test_own_operators(self):
        """The sides are built by fla.toml's recipe; here the binary is this fla, which says another tree."""
        self.write("fla.toml", '[build]\ncommands = ["mkdir -p build", "sh make.sh"]\nbinary = "build/fla"\n'
                               '[runner]\nfiles = ["*.sh"]\n')
        self.write("make.sh", f"""cat > build/fla <<END
#!/bin/sh
test "\\$1" = --version && echo tree $(git rev-parse 'HEAD^{{tree}}') && exit
exec {FLA} "\\$@"
END
chmod +x build/fla
""")
        self.write(".gitignore", "/build/\n")
        self.commit("recipe")
        self.write("src/kernel.cu", "two\n")
        done = self.fla("evidence", "--base", "main", "--op", "chunk_kda", "--custom-shapes",
                        '{"small": {"T": 64, "H": 1, "D": 16}}', "--device", "cpu", "--rounds", "1", "--run", "own")
        self.assertEqual(done.returncode, 1, done.stderr)
        evidence = json.loads((self.repo / "profile/own/evidence.json").read_text())
        jsonschema.validate(evidence, json.loads((SOURCE / "schemas/fla.evidence.1.schema.json").read_text()))
        self.assertEqual(sorted(row["coverage"] for row in evidence["rows"]), ["dense", "varlen"])
        self.assertEqual({row["rounds"] for row in evidence["rows"]}, {1})
        self.assertEqual(evidence["gate"]["ok"], True)
        self.assertEqual(evidence["identity"]["head"], evidence["head"]["tree"])
        self.assertNotEqual(evidence["identity"]["head"], evidence["identity"]["base"])
        for rule in ("R-BENCH-1", "R-BENCH-2", "R-BENCH-3", "R-BENCH-5", "R-GATE-1", "R-NCU-5"):
            self.assertRegex(done.stdout, rf"(?m)^{rule} +pass")

        alone = self.fla("evidence", "--base", "main", "--op", "chunk_kda", "--custom-shapes",
                         '{"small": {"T": 64, "H": 1, "D": 16}}', "--device", "cpu", "--rounds", "1", "--run", "alone",
                         "--new-op", "--no-varlen")
        self.assertEqual(alone.returncode, 1, alone.stderr)
        evidence = json.loads((self.repo / "profile/alone/evidence.json").read_text())
        jsonschema.validate(evidence, json.loads((SOURCE / "schemas/fla.evidence.1.schema.json").read_text()))
        self.assertEqual((evidence["verdict"], evidence["identity"]["base"]), ("new", None))
        self.assertRegex(alone.stdout, r"(?m)^R-BENCH-1 +pass")
        self.assertRegex(alone.stdout, r"(?m)^R-BENCH-5 +pass")

        self.write("make.sh", "exit 3\n")
        broken = self.fla("evidence", "--base", "main", "--op", "chunk_kda", "--run", "broken")
        self.assertEqual(broken.returncode, 6, broken)
        self.assertIn("head does not build", broken.stderr)

    def test_kill_and_resume(self):
        self.write("time.txt", "9.0\n")
        command = [FLA, *self.evidence("--run", "killed")]
        for _ in range(3):
            process = subprocess.Popen(command, cwd=self.repo, env=self.env, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            process.send_signal(signal.SIGKILL)
            process.wait()
            command = [FLA, "evidence", "--resume", "--run", "killed"]
        before = (self.repo / "profile/killed/analysis/journal.jsonl").read_text()
        done = self.fla("evidence", "--resume", "--run", "killed")
        self.assertEqual(done.returncode, 1, done.stderr)
        after = (self.repo / "profile/killed/analysis/journal.jsonl").read_text()
        self.assertTrue(after.startswith(before[:before.rfind("\n") + 1]))
        evidence = json.loads((self.repo / "profile/killed/evidence.json").read_text())
        self.assertEqual([row["rounds"] for row in evidence["rows"]], [6, 6])
        self.assertEqual(evidence["state"], "complete")

    def test_interrupt(self):
        process = subprocess.Popen([FLA, *self.evidence("--run", "stopped")], cwd=self.repo, env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.6)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 7, errors)
        self.assertTrue((self.repo / "profile/stopped/MR.md").exists())

    def test_refusals(self):
        for arguments, status, says in (
                (["evidence", "--op", "chunk_kda"], 2, "--base"),
                (["evidence", "--base", "nowhere", "--bench", "a=true"], 2, "'nowhere'"),
                (["evidence", "--base", "main"], 2, "--op"),
                (["evidence", "--base", "main", "--op", "chunk_kda"], 2, "fla.toml"),
                (["evidence", "--base", "main", "--bench", "a=true", "--parse", "a=x"], 2, "unknown parser"),
                (["evidence", "--resume"], 2, "no run"),
                (["evidence", "import", "nowhere"], 9, "evidence.json"),
                (["evidence", "run", "nowhere", "--out", "x"], 9, "bundle.json"),
                (["evidence", "explain", "--row", "x"], 2, "--text"),
                (["check", "nowhere"], 9, "evidence.json")):
            with self.subTest(arguments):
                done = self.fla(*arguments)
                self.assertEqual(done.returncode, status, done)
                self.assertIn(says, done.stderr)

    def test_class_is_lowered_by_configuration(self):
        card = ["hardware", "--what-if", "NVIDIA H200", "--cc", "9.0"]
        self.assertEqual(self.fla(*card).returncode, 0)
        self.write("fla.toml", '[hardware]\n"NVIDIA H*" = "reference"\n"NVIDIA A100" = "accepted"\n')
        lowered = self.fla(*card)
        self.assertEqual(lowered.returncode, 1, lowered.stderr)
        self.assertIn("lowered from accepted by fla.toml", lowered.stdout)
        self.assertEqual(self.fla("hardware", "--what-if", "NVIDIA A100", "--cc", "8.0").returncode, 1)
        self.write("fla.toml", '[hardware]\n"NVIDIA H*" = "best"\n')
        refused = self.fla(*card)
        self.assertEqual(refused.returncode, 9)
        self.assertIn("line 2", refused.stderr)

    def test_hygiene_comes_before_work(self):
        self.write("full_x.ncu-rep", "x")
        self.git("add", "-f", "full_x.ncu-rep")
        done = self.fla(*self.evidence())
        self.assertEqual(done.returncode, 4, done)
        self.assertIn("git rm --cached full_x.ncu-rep", done.stderr)
        self.assertEqual(self.fla("check").returncode, 4)

    def test_check_without_a_run(self):
        done = self.fla("check")
        self.assertEqual((done.returncode, done.stdout), (0, "evidence not required: no kernel file changed\n"))
        self.write("src/kernel.cu", "two\n")
        changed = self.fla("check")
        self.assertEqual(changed.returncode, 1)
        self.assertRegex(changed.stdout, r"(?m)^R-SCOPE-1 +fail.*src/kernel.cu")

    def test_bundle_there_and_back(self):
        self.write("time.txt", "9.0\n")
        bundle = Path(self.folder.name) / "bundle"
        out = Path(self.folder.name) / "out"
        packed = self.fla("evidence", "bundle", "-o", str(bundle), *self.evidence("--run", "away")[1:])
        self.assertEqual(packed.returncode, 0, packed.stderr)
        command = [str(bundle / "fla"), "evidence", "run", str(bundle), "--out", str(out), "--budget", "100"]
        there = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd="/", env=self.env)
        self.assertEqual(there.returncode, 0, there.stderr)
        back = self.fla("evidence", "import", str(out))
        self.assertEqual(back.returncode, 0, back.stderr)
        evidence = json.loads((self.repo / "profile/away/evidence.json").read_text())
        self.assertEqual(evidence["verdict"], "improvement")
        self.assertRegex(self.fla("history", "list").stdout, r"(?m) away +evidence .* improvement ")


if __name__ == "__main__":
    unittest.main()
