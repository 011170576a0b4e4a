# SPDX-License-Identifier: MIT
"""`fla hardware`, `fla compare`, `fla history` and `fla bench ops --against` as a user meets them.

Needs FLA (the binary) and SOURCE (the repository) in the environment; ctest sets both.
"""

import copy
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import jsonschema

FLA = os.environ["FLA"]
SOURCE = Path(os.environ["SOURCE"])
SHAPE = '{"small": {"B": 1, "T": 64, "H": 1, "D": 8}}'
QUICK = ["bench", "ops", "--op", "chunk_kda", "--modes", "fwd", "--quick", "--device", "cpu", "--custom-shapes", SHAPE,
         "-q"]


def validated(text, name):
    document = json.loads(text)
    schema = json.loads((SOURCE / f"schemas/{name}.1.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema, jsonschema.Draft202012Validator)
    return document


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {**os.environ, "XDG_DATA_HOME": str(self.folder / "data")}

    def fla(self, *arguments, status=0, says=None, **environment):
        done = subprocess.run([FLA, *arguments], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env={**self.environment, **environment})
        self.assertEqual(done.returncode, status, done)
        if says is not None:
            self.assertIn(says, done.stdout + done.stderr)
        return done.stdout

    def options_are_on_the_page(self, page, *commands):
        text = (SOURCE / f"docs/cli/{page}.md").read_text()
        self.assertEqual(self.fla("help", page), text)
        for command in commands:
            options = set(re.findall(r"--[a-z-]+", self.fla(*command, "--help"))) - {"--help"}
            for option in options:
                self.assertIn(option, text)

    def write(self, name, document):
        (self.folder / name).write_text(json.dumps(document))
        return name


class Hardware(Case):
    def test_the_class_is_the_first_word(self):
        for name, capability, status, word in (
                ("NVIDIA B200", "10.0", 0, "preferred"), ("NVIDIA GB300", "10.3", 0, "preferred"),
                ("NVIDIA H20", "9.0", 0, "accepted"), ("NVIDIA A100-SXM4-80GB", "8.0", 1, "reference"),
                ("NVIDIA GeForce RTX 5090", "12.0", 1, "reference"), ("NVIDIA L40S", "8.9", 1, "reference")):
            out = self.fla("hardware", "--what-if", name, "--cc", capability, status=status)
            self.assertEqual(out.split()[0], word)
            self.assertIn(name, out.splitlines()[0])

    def test_what_is_stated_counts(self):
        what_if = ["hardware", "--what-if", "NVIDIA H100", "--cc", "9.0"]
        self.fla(*what_if, "--brand", "GeForce", status=1, says="H6")
        self.fla(*what_if, "--mig", status=1, says="H5")
        self.fla(*what_if, "--vgpu", status=1, says="H5")
        self.fla(*what_if, "--ecc", "false", status=1, says="no ECC")
        self.fla(*what_if, "--display", "true", status=1, says="display")
        self.fla("hardware", "--what-if", "NVIDIA X", "--cc", "9.0", "--bus-bits", "384", status=1, says="384 bits")

    def test_the_record_is_json(self):
        record = validated(self.fla("hardware", "--what-if", "NVIDIA H200", "--cc", "9.0", "--json", "-"),
                           "fla.hardware")
        self.assertEqual(record["judgement"]["class"], "accepted")
        self.assertRegex(record["id"], "^hw:[0-9a-f]{64}$")

    def test_mistakes(self):
        self.fla("hardware", "--what-if", "NVIDIA H200", status=2, says="--cc")
        self.fla("hardware", "--cc", "9.0", status=2, says="--what-if")
        self.fla("hardware", "--what-if", "x", "--cc", "9", status=2, says="MAJOR.MINOR")
        self.fla("hardware", "--what-if", "x", "--cc", "9.0", "--brand", "Voodoo", status=2, says="Voodoo")

    def test_this_machine(self):
        done = subprocess.run([FLA, "hardware"], capture_output=True, text=True, timeout=60)
        word = done.stdout.split()[0]
        self.assertEqual(done.returncode, {"preferred": 0, "accepted": 0, "reference": 1, "none": 5}[word])

    def test_every_option_is_on_its_page(self):
        self.options_are_on_the_page("hardware", ["hardware"])


class Compare(Case):
    def setUp(self):
        super().setUp()
        self.base = json.loads(self.fla(*QUICK, "--json", "-", "--no-history"))
        self.row(self.base, 1e-3)
        self.write("base.json", self.base)

    @staticmethod
    def row(document, seconds):
        """Gives the only row a time that is known to 0.1 %."""
        row = document["rows"][0]
        row["median_s"] = seconds
        row["ci95_s"] = [seconds * 0.999, seconds * 1.001]
        for key in ("median_s", "ci95_s"):
            row["null_reasons"].pop(key, None)
        return row

    def head(self, seconds=1e-3, **changes):
        document = copy.deepcopy(self.base)
        self.row(document, seconds)
        document.update(changes)
        return self.write("head.json", document)

    def test_verdicts_and_exit_statuses(self):
        self.head(1.05e-3)
        self.fla("compare", "base.json", "head.json", status=1, says="regression (unpaired), suspect")
        self.fla("compare", "base.json", "head.json", "--fail-on", "never")
        self.fla("compare", "base.json", "head.json", "--threshold", "10", says="neutral (unpaired)")
        self.fla("compare", "head.json", "base.json", says="improvement (unpaired)")
        self.head(1.012e-3)
        self.fla("compare", "base.json", "head.json", says="inconclusive (unpaired)")
        self.fla("compare", "base.json", "head.json", "--fail-on", "inconclusive", status=1)
        self.head()
        self.assertNotIn("chunk_kda|", self.fla("compare", "base.json", "head.json", "--show", "changed"))

    def test_machine_forms(self):
        self.head(1.05e-3)
        out = self.fla("compare", "base.json", "head.json", "--json", "-", "--md", "out.md", status=1)
        document = validated(out, "fla.compare")
        self.assertEqual(document["verdict"], "regression")
        self.assertEqual(document["settings"]["paired"], False)
        self.assertIn("| chunk_kda", (self.folder / "out.md").read_text())
        key = document["rows"][0]["key"]
        self.fla("compare", "base.json", "head.json", "--explain", key, status=1, says="noise floor")
        self.fla("compare", "base.json", "head.json", "--explain", "x", status=2, says="no such row")

    def test_other_machines_are_refused(self):
        self.head(session={"boot_id": "another", "gpu_uuid": None})
        self.fla("compare", "base.json", "head.json", status=3, says="--allow-same-model")
        self.fla("compare", "base.json", "head.json", "--allow-same-model", says="same-model")
        self.head(threads=self.base["threads"] + 1)
        self.fla("compare", "base.json", "head.json", "--allow-same-model", status=3, says="different hardware")
        listing = self.fla("compare", "base.json", "head.json", "--cross-hardware", says="a listing")
        self.assertNotIn("verdict:", listing)

    def test_other_work_is_refused(self):
        document = copy.deepcopy(self.base)
        document["rows"][0]["workload_digest"] = "0" * 64
        self.write("head.json", document)
        self.fla("compare", "base.json", "head.json", status=3, says="workload")

    def test_missing_rows(self):
        document = copy.deepcopy(self.base)
        extra = copy.deepcopy(document["rows"][0])
        extra["op"] = "chunk_gla"
        document["rows"].append(extra)
        self.write("more.json", document)
        self.fla("compare", "more.json", "base.json", says="only-base: chunk_gla")
        self.fla("compare", "more.json", "base.json", "--fail-on", "missing", status=1)
        document["rows"] = []
        self.write("empty.json", document)
        self.fla("compare", "base.json", "empty.json", status=8, says="no measured row")

    def test_unreadable_files(self):
        (self.folder / "torn.json").write_text((self.folder / "base.json").read_text()[:200] + "\n")
        self.fla("compare", "base.json", "torn.json", status=9, says="torn.json: results: line 2")
        self.fla("compare", "no.json", "base.json", status=9, says="no.json")
        self.write("newer.json", {**self.base, "schema": "fla.results/2"})
        self.fla("compare", "base.json", "newer.json", status=9, says="newer")
        self.fla("compare", "base.json", status=2)

    def test_every_option_is_on_its_page(self):
        self.options_are_on_the_page("compare", ["compare"])


class History(Case):
    def test_runs_are_remembered_unless_told_not_to(self):
        self.fla(*QUICK, "--no-history")
        self.assertFalse((self.folder / "data").exists())
        self.fla(*QUICK, "--name", "before")
        listed = self.fla("history", "list").splitlines()
        self.assertEqual(len(listed), 2)
        self.assertIn("before", listed[1])
        shown = json.loads(self.fla("history", "show", "before", "--json", "-"))
        self.fla("history", "show", listed[1].split()[0], says="chunk_kda")
        key = shown["rows"][0]["key"]
        self.fla("history", "trend", "--row", key, says=listed[1].split()[0])
        self.fla("history", "trend", "--row", "x", status=8, says="'x'")
        self.fla("history", "show", "nobody", status=2, says="nobody")

    def test_export_import_and_gc(self):
        self.fla(*QUICK, "--json", "run.json", "--no-history")
        self.fla("history", "import", "run.json")
        exported = json.loads(self.fla("history", "export"))
        self.assertEqual(exported["schema"], "fla.history/1")
        self.assertEqual(exported["runs"][0]["document"], json.loads((self.folder / "run.json").read_text()))
        self.fla("history", "gc", "--keep-days", "1", says="removed 0 runs")
        old = json.loads((self.folder / "run.json").read_text())
        old["created"] = "2020-01-01T00:00:00Z"
        self.write("old.json", old)
        self.fla("history", "import", "old.json")
        self.fla("history", "gc", "--keep-days", "1", says="removed 1 runs")
        self.write("other.json", {"schema": "fla.ops/1"})
        self.fla("history", "import", "other.json", status=9, says="other.json")

    def test_a_history_that_cannot_be_written_is_a_note(self):
        (self.folder / "data").write_text("a file")
        self.fla(*QUICK, says="not in the history")
        self.fla("history", "list", status=9)

    def test_quick_against_the_last_run(self):
        self.fla(*QUICK, "--against", "last", "--json", "run.json", says="no earlier result")
        run = json.loads((self.folder / "run.json").read_text())
        run["created"] = "2999-01-01T00:00:00Z"  # the last of all
        for seconds, status, word in ((1e-9, 1, "SLOWER"), (1e9, 0, "-100.0 %")):
            row = run["rows"][0]
            row["median_s"] = seconds
            row["ci95_s"] = None
            self.write("faked.json", run)
            self.fla("history", "import", "faked.json")
            out = self.fla(*QUICK, "--against", "last", "--no-history", status=status, says=word)
            self.assertIn("varlen is still open: chunk_kda fwd", out.splitlines()[-1])
            self.fla("history", "gc", "--keep-days", "0")
            run["created"] = "2999-01-02T00:00:00Z"
        self.fla(*QUICK, "--against", "nobody", status=2, says="nobody")

    def test_no_varlen_debt_when_packed_rows_ran(self):
        self.assertNotIn("still open", self.fla(*QUICK, "--varlen", "tiny", "--no-history"))

    def test_every_option_is_on_its_page(self):
        actions = ("list", "show", "trend", "import", "gc", "export")
        self.options_are_on_the_page("history", *(["history", action] for action in actions))
        self.fla("history", "lsit", status=2, says="nearest: list")


if __name__ == "__main__":
    unittest.main()
