# SPDX-License-Identifier: MIT
"""The `fla` binary as a user meets it: exit statuses, messages, files, interrupts, the pages' examples.

Needs FLA (the binary) and SOURCE (the repository) in the environment; ctest sets both.
"""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema

FLA = os.environ["FLA"]
SOURCE = Path(os.environ["SOURCE"])
SCHEMA = json.loads((SOURCE / "schemas/fla.results.1.schema.json").read_text())
SMALL = '{"small": {"B": 2, "T": 70, "H": 1, "HV": 2, "K": 8, "Dv": 12}}'
QUICK = ["bench", "ops", "--op", "chunk_kda", "--modes", "fwd", "--quick", "--custom-shapes", SMALL]


def fla(*arguments, **options):
    return subprocess.run([FLA, *arguments], capture_output=True, text=True, timeout=240, **options)


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def strict(text):
    return json.loads(text, parse_constant=refuse_constant)


def validated(text):
    document = strict(text)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(document, SCHEMA, jsonschema.Draft202012Validator)
    for row in document["rows"]:
        for key in ("median_s", "ci95_s", "tokens_per_s", "compute_fraction", "peak_bytes"):
            assert (row[key] is None) == (key in row["null_reasons"]), (key, row)
    return document


class BadInput(unittest.TestCase):
    def refused(self, *arguments, says):
        done = fla(*arguments)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_unknown_names_give_the_nearest(self):
        self.refused("bnech", "ops", says="nearest: bench ops")
        self.refused("bench", "opps", says="nearest: bench ops")
        self.refused("help", "bench", "op", says="nearest: bench ops")
        self.refused("bench", "ops", "--op", "chunk_kad", says="chunk_kda")
        self.refused(*QUICK, "--mode", "fwd", says="--modes")
        self.refused(*QUICK, "--dtype", "bf61", says="nearest: bf16")
        self.refused(*QUICK, "--modes", "bdw", says="bwd")
        self.refused(*QUICK, "--shapes", "B1_T2048_H8_D182", says="B1_T2048_H8_D128")
        self.refused(*QUICK, "--varlen", "ziff", says="nearest: zipf")
        self.refused(*QUICK, "--backend", "cpuu", says="nearest: cpu")
        self.refused(*QUICK, "--device", "gpu", says="nearest: cpu")
        self.refused(*QUICK, "--cpu-target", "avx9", says="unknown cpu target")
        self.refused(*QUICK, "--gates", "zero", says="nearest: zeros")
        self.refused(*QUICK, "--timer", "graf", says="nearest: graph")
        self.refused("ops", "--lits", says="nearest: --list")

    def test_values_out_of_range(self):
        self.refused(*QUICK, "--rounds", "0", says="--rounds")
        self.refused(*QUICK, "--budget", "0", says="--budget")
        self.refused(*QUICK, "--seed", "x", says="--seed")
        self.refused(*QUICK, "--threads", "-1", says="--threads")

    def test_custom_shapes(self):
        base = ["bench", "ops", "--op", "chunk_kda", "--custom-shapes"]
        self.refused(*base, '{"a": {"H": 1, "D": 8, "Hv": 2}}', says="unknown axis 'Hv'; nearest: HV")
        self.refused(*base, '{"a": {"H": 1', says="not a JSON object")
        self.refused(*base, "@/no/such/file", says="cannot read")

    def test_contradictions(self):
        self.refused("bench", "ops", says="--op is required")
        self.refused(*QUICK, "--device", "cpu", "--backend", "cuda", says="contradict")
        self.refused(*QUICK, "--json", "-", "--csv", "-", says="only one")
        self.refused("bench", "ops", "--op", "chunk_kda", "--modes", "decode", says="fused_recurrent_kda")
        self.refused("ops", "--limits", "--json", "-", says="--limits")
        self.refused("ops", "--list", "--instances", says="exclude")

    def test_ranks(self):
        train = ["bench", "train", "--quick", "--device", "cpu", "--no-history"]
        for variables, says in (({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is '2', expected 0 to 1"),
                                ({"RANK": "0"}, "WORLD_SIZE is ''"),
                                ({"RANK": "1", "WORLD_SIZE": "2"}, "WORLD_SIZE is 2, expected 1 on the CPU")):
            done = fla(*train, env={**os.environ, **variables})
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_cuda_without_a_gpu(self):
        done = fla(*QUICK, "--device", "cuda")
        if done.returncode == 0:
            self.skipTest("this machine has a GPU")
        self.assertEqual(done.returncode, 5, done)
        self.assertRegex(done.stderr, "no CUDA (backend|device)")
        self.assertEqual(done.stdout, "")

    def test_a_refused_row_is_shown(self):
        shape = '{"wide": {"T": 4, "H": 1, "D": 513}}'
        done = fla("bench", "ops", "--op", "chunk_kda", "--modes", "fwd", "--quick", "--custom-shapes", shape)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("unavailable", done.stdout)
        self.assertIn("513", done.stdout)


class Outputs(unittest.TestCase):
    def test_json_alone_on_stdout(self):
        done = fla(*QUICK, "--json", "-")
        self.assertEqual(done.returncode, 0, done)
        document = validated(done.stdout)
        self.assertEqual(document["kind"], "quick")
        self.assertEqual(len(document["rows"]), 1)
        self.assertIn("chunk_kda", done.stderr)
        self.assertEqual(document["rows"][0]["axes"], {"B": 2, "H": 1, "HV": 2, "K": 8, "T": 70, "V": 12})

    def test_every_form_has_the_same_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = {form: Path(folder) / f"out.{form}" for form in ("json", "md", "csv")}
            options = [word for form, path in paths.items() for word in (f"--{form}", str(path))]
            done = fla(*QUICK, "--varlen", "ragged,tiny", *options)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(sorted(os.listdir(folder)), ["out.csv", "out.json", "out.md"])
            rows = validated(paths["json"].read_text())["rows"]
            self.assertEqual([row["coverage"] for row in rows], ["dense", "varlen:ragged", "varlen:tiny"])
            table = list(csv.DictReader(io.StringIO(paths["csv"].read_text())))
            self.assertEqual([row["key"] for row in table], [row["key"] for row in rows])
            self.assertEqual(paths["md"].read_text().count("| chunk_kda |"), 3)

    def test_the_cells_cover_ops_modes_and_dtypes(self):
        done = fla("bench", "ops", "--op", "kda,gdn", "--modes", "fwd", "bwd", "--modes", "fwdbwd", "--dtype", "fp32",
                   "--quick", "--custom_shapes", SMALL, "--json=-", "-q")
        self.assertEqual(done.returncode, 0, done)
        cells = [(row["op"], row["mode"]) for row in validated(done.stdout)["rows"]]
        self.assertEqual(cells, [(op, mode) for op in ("chunk_kda", "chunk_gdn") for mode in ("fwd", "bwd", "fwdbwd")])

    def test_decode_and_ref(self):
        done = fla("bench", "ops", "--op", "fused_recurrent_kda", "--modes", "decode", "--backend", "ref", "cpu",
                   "--quick", "--custom-shapes", SMALL, "--json", "-", "-q")
        self.assertEqual(done.returncode, 0, done)
        rows = validated(done.stdout)["rows"]
        self.assertEqual([row["backend"] for row in rows], ["ref", "cpu"])
        self.assertEqual({row["axes"]["T"] for row in rows}, {1})

    def test_no_tokens_gives_a_row(self):
        done = fla("bench", "ops", "--op", "chunk_kda", "--modes", "fwd", "--quick", "--custom-shapes",
                   '{"none": {"T": 0, "H": 1, "D": 8}}', "--json", "-", "-q")
        self.assertEqual(done.returncode, 0, done)
        validated(done.stdout)

    def test_a_file_that_cannot_be_written_leaves_the_table(self):
        for path in ("/dev/full", "/no/such/folder/out.json"):
            done = fla(*QUICK, "--json", path)
            self.assertEqual(done.returncode, 6, done)
            self.assertIn("chunk_kda", done.stdout)
            self.assertIn(path, done.stderr)

    def test_a_full_stdout_is_an_error(self):
        with open("/dev/full", "w") as full:
            for arguments in (["ops", "--list"], ["--version"], ["help"], [*QUICK, "--json", "-"]):
                done = subprocess.run([FLA, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(done.returncode, 6, arguments)


class Interrupt(unittest.TestCase):
    def test_finished_rows_are_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            process = subprocess.Popen(
                [FLA, "bench", "ops", "--op", "chunk_kda", "--modes", "fwd", "bwd", "--budget", "3", "--custom-shapes",
                 '{"small": {"T": 16, "H": 1, "D": 8}}', "--json", str(path)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while "[2/2]" not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 7, out)
            self.assertIn("interrupted", out)
            rows = validated(path.read_text())["rows"]
            self.assertEqual([row["status"] for row in rows], ["ok", "skipped"])


class Examples(unittest.TestCase):
    def test_every_example_of_the_pages_runs(self):
        count = 0
        for page in sorted((SOURCE / "docs/cli").glob("*.md")):
            for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
                for line in block.splitlines():
                    words = shlex.split(line)
                    self.assertEqual(words[0], "fla", line)
                    with self.subTest(line=line):
                        done = fla(*words[1:])
                        self.assertEqual(done.returncode, 0, done.stderr)
                        count += 1
        self.assertGreater(count, 5)


class Info(unittest.TestCase):
    def test_version_says_what_was_built(self):
        done = fla("--version")
        self.assertEqual(done.returncode, 0)
        for word in ("commit", "compiler", "SIMD targets", "CUDA architectures"):
            self.assertIn(word, done.stdout)

    def test_help_prints_the_pages(self):
        for words, page in ((["bench", "ops"], "bench_ops"), (["ops"], "ops"), ([], "fla")):
            done = fla("help", *words)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(done.stdout, (SOURCE / f"docs/cli/{page}.md").read_text())

    def test_every_option_is_on_its_page(self):
        for words, page in ((["bench", "ops"], "bench_ops"), (["ops"], "ops")):
            text = (SOURCE / f"docs/cli/{page}.md").read_text()
            for option in set(re.findall(r"--[a-z-]+", fla(*words, "--help").stdout)) - {"--help", "--quiet"}:
                self.assertIn(option, text)

    def test_list_names_every_operator(self):
        rows = strict(fla("ops", "--list", "--json", "-").stdout)["ops"]
        text = fla("ops", "--list").stdout
        self.assertGreaterEqual(len(rows), 20)
        for row in rows:
            self.assertIn(row["name"], text)
            self.assertTrue(row["recurrent_names"], row)


    def test_instances_have_limits_in_every_build(self):
        document = strict(fla("ops", "--instances", "--json", "-").stdout)
        self.assertEqual(document["schema"], "fla.instances/1")
        text = fla("ops", "--instances").stdout
        self.assertGreaterEqual(len(document["instances"]), 15)
        for row in document["instances"]:
            self.assertIn(row["name"], text)
            self.assertEqual(row["built"], "no" if document["cuda_architectures"] == "none" else "yes")


class Peers(unittest.TestCase):
    def test_packed_rows_have_our_offsets(self):
        shape = '{"B2_T96_H1_D8": {"B": 2, "T": 96, "H": 1, "D": 8}}'
        ours = fla("bench", "ops", "--op", "chunk_kda", "--modes", "fwd", "--quick", "--varlen", "ragged",
                   "--custom-shapes", shape, "--json", "-", "-q")
        rows = validated(ours.stdout)["rows"]
        script = SOURCE / "tools/peers/fla_ops.py"
        theirs = subprocess.run([sys.executable, script, "--list", "--ops", "kda", "--varlen", "ragged", "--shapes",
                                 "B2_T96_H1_D8"], capture_output=True, text=True, timeout=60, check=True)
        offsets = theirs.stdout.splitlines()[1].split()[1:]
        self.assertEqual([int(offset) for offset in offsets], rows[1]["cu_seqlens"]["offsets"])


if __name__ == "__main__":
    unittest.main()
