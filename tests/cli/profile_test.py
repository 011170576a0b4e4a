# SPDX-License-Identifier: MIT
"""`fla profile` and `fla report` as a user meets them, with a profiler that is played by fake_ncu.py.

Needs FLA (the binary) and SOURCE (the repository) in the environment; ctest sets both.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import jsonschema

FLA = os.environ["FLA"]
SOURCE = Path(os.environ["SOURCE"])
FAKE = SOURCE / "tests/perf/fake_ncu.py"
SCHEMA = json.loads((SOURCE / "schemas/fla.profile.1.schema.json").read_text())


class InTemporaryFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "NCU": str(FAKE),
                            "XDG_RUNTIME_DIR": str(self.folder)}

    def fla(self, *arguments, status=0, **environment):
        done = subprocess.run([FLA, *arguments], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env=self.environment | environment)
        self.assertEqual(done.returncode, status, done)
        return done

    def profile(self, *options, status=0, program=("true",), **environment):
        return self.fla("profile", "--kernel", "^axpy$", "--run", "r", "--tag", "t", "-q", *options, "--", *program,
                        status=status, **environment)

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=self.folder, check=True,
                       capture_output=True)


class Profile(InTemporaryFolder):
    def test_run_leaves_the_layout(self):
        done = self.profile()
        self.assertIn("report   profile/r/REPORT.md", done.stdout)
        run = self.folder / "profile/r"
        self.assertEqual(sorted(path.name for path in (run / "reports").iterdir()),
                         ["full_t.ncu-rep", "source_t.ncu-rep"])
        metrics = json.loads((run / "analysis/metrics_t.json").read_text())
        jsonschema.validate(metrics, SCHEMA, jsonschema.Draft202012Validator)
        self.assertEqual(metrics["launch"]["of"], 3)
        self.assertEqual(metrics["collection"]["clock_control"], "none")
        report = (run / "REPORT.md").read_text()
        for text in ("launch 2 of 3 that match", "DRAM-bound", "added --clock-control none", "set `source` absent"):
            self.assertIn(text, report)
        self.assertEqual((self.folder / "profile/.gitignore").read_text(), "*\n")

    def test_finished_run_is_not_written_to_again(self):
        self.profile()
        self.assertIn("is there already", self.profile(status=2).stderr)

    def test_letter_prints_the_plain_commands(self):
        done = self.fla("profile", "--kernel", "k.*", "--letter", "--run", "r", "--tag", "t", "--dry-run", "--",
                        "python", "-m", "benchmarks.ops.run", "--op", "chunk_kda", "--modes", "fwd")
        tail = "python -m benchmarks.ops.run --op chunk_kda --modes fwd"
        self.assertEqual(done.stdout.splitlines(), [
            f"{FAKE} --set full --section PmSampling --section PmSampling_WarpStates -k 'regex:k.*' -c 1 "
            f"-o profile/r/reports/full_t {tail}",
            f"{FAKE} --set source --section SourceCounters -k 'regex:k.*' -c 1 -o profile/r/reports/source_t {tail}"])
        self.assertFalse((self.folder / "profile").exists())

    def test_own_operator_is_one_row(self):
        done = self.fla("profile", "--op", "chunk_kda", "--modes", "fwd", "--shapes", "B1_T8192_H64_D128", "--kernel",
                        "fla_chunk_scan", "--dry-run")
        census, full, source = done.stdout.splitlines()
        for line in (census, full, source):
            self.assertIn("bench ops --op chunk_kda --modes fwd --dtype bf16 --device cuda "
                          "--shapes B1_T8192_H64_D128 --profile -q", line)
        self.assertIn("/reports/full_chunk_kda_fwd_B1_T8192_H64_D128.ncu-rep", full)
        self.assertIn("--import-source yes", source)

    def test_nothing_matches(self):
        done = self.fla("profile", "--kernel", "nothing", "--run", "r", "-q", "--", "true", status=8)
        self.assertIn("these ran:\n  axpy(", done.stderr)
        report = (self.folder / "profile/r/REPORT.md").read_text()
        self.assertIn("| state | failed |", report)
        self.assertIn("- axpy(", report)
        self.profile()

    def test_no_permission_names_the_cause(self):
        done = self.profile(status=5, FAKE_NCU_MODE="permission")
        self.assertIn("no-permission", done.stderr)
        self.assertIn("administrator", done.stderr)

    def test_no_profiler(self):
        self.assertIn("is not a program", self.profile(status=5, NCU="/no/ncu").stderr)

    def test_program_fails(self):
        self.assertIn("program failed", self.profile(status=6, program=("false",)).stderr)

    def test_usage(self):
        for arguments, says in ((["--kernel", "k"], "either --op NAME or a command"),
                                (["--kernel", "(", "--", "true"], "not a regular expression"),
                                (["--op", "chunk_kdb", "--kernel", "k"], "chunk_kda"),
                                (["--kernel", "k", "--select", "last", "--", "true"], "index=N")):
            self.assertIn(says, self.fla("profile", *arguments, status=2).stderr)

    def test_interrupt_leaves_no_report(self):
        environment = self.environment | {"FAKE_NCU_MODE": "slow"}
        with subprocess.Popen([FLA, "profile", "--kernel", "^axpy$", "--run", "r", "--tag", "t", "--", "true"],
                              cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
            reports = self.folder / "profile/r/reports"
            for _ in range(400):
                if reports.is_dir() and any(reports.iterdir()):
                    break
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, 7)
        self.assertEqual(list(reports.iterdir()), [])

    def test_repository_stays_clean(self):
        self.git("init", "-q")
        self.profile()
        status = subprocess.run(["git", "status", "--porcelain", "--", "profile"], cwd=self.folder, capture_output=True,
                                text=True, check=True)
        self.assertEqual(status.stdout, "")

    def test_tracked_artifact_is_refused(self):
        self.git("init", "-q")
        (self.folder / "old.ncu-rep").write_text("x")
        self.git("add", "-f", "old.ncu-rep")
        self.git("commit", "-qm", "x")
        self.assertIn("old.ncu-rep", self.profile(status=4).stderr)
        self.assertFalse((self.folder / "profile/r").exists())


class Report(InTemporaryFolder):
    def setUp(self):
        super().setUp()
        self.profile()
        self.run_folder = self.folder / "profile/r"

    def test_without_the_profiler_the_pages_do(self):
        done = self.fla("report", "profile/r", "--top", "3", NCU="/no/ncu")
        self.assertIn("page     profile/r/report.html", done.stdout)
        self.assertIn("Nsight Compute is not available here", (self.run_folder / "REPORT.md").read_text())

    def test_diff_with_an_earlier_run(self):
        shutil.copytree(self.run_folder, self.folder / "profile/before")
        self.fla("report", "profile/r", "--diff", "profile/before")
        self.assertIn("No counter moved by more than 1 %", (self.run_folder / "REPORT.md").read_text())

    def test_damaged_page_is_named(self):
        (self.run_folder / "analysis/raw_t.csv").write_text('"ID\n')
        done = self.fla("report", "profile/r", status=9)
        self.assertIn("profile/r/analysis/raw_t.csv:1:", done.stderr)

    def test_counters_are_listed(self):
        self.assertIn("gpu__time_duration.sum", self.fla("report", "profile/r", "--list-metrics", "time_dur").stdout)
        self.fla("report", "profile/r", "--list-metrics", "no such", status=8)

    def test_usage(self):
        self.assertIn("not a folder", self.fla("report", "profile/none", status=2).stderr)
        (self.folder / "empty").mkdir()
        self.assertIn("holds no profile", self.fla("report", "empty", status=2).stderr)

    def test_skill_is_used_or_noted(self):
        self.assertIn("ncu-report-skill: not available: searched ", (self.run_folder / "REPORT.md").read_text())
        skill = self.folder / ".claude/skills/ncu-report-skill"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: ncu-report-skill\n---\n")
        (skill / "analyze_reports.py").write_text("import sys\nprint(sys.argv[1:])\n")
        self.fla("report", "profile/r", "--with-skill")
        self.assertIn(f"used: {skill.resolve()}", (self.run_folder / "REPORT.md").read_text())
        self.assertIn("--tag", (self.run_folder / "analysis/skill/analyze_reports_t.txt").read_text())


if __name__ == "__main__":
    unittest.main()
