# SPDX-License-Identifier: MIT
"""tools/ptxas_usage.py keeps what ptxas says; tools/ptxas_ledger.py makes a table of it and fails on spills."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCAN = "_ZN3fla4cuda5chunk14fla_chunk_scanINS1_5ShapeILNS_6UpdateE0ELb1ELi128ELi1EEEEEvNS1_6ParamsE"


def says(arch: str, kernel: str, registers: int, spills: int = 0, shared: str = "") -> str:
    return (f"ptxas info    : Compiling entry function '{kernel}' for '{arch}'\n"
            f"ptxas info    : Function properties for {kernel}\n"
            f"    {spills} bytes stack frame, {spills} bytes spill stores, 0 bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, used 1 barriers{shared}\n")


class PtxasLedger(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)

    def compile(self, output: str, code: int = 0) -> subprocess.CompletedProcess:
        compiler = f"import sys\nprint({output!r}, file=sys.stderr)\nsys.exit({code})"
        return subprocess.run([sys.executable, "-B", ROOT / "tools/ptxas_usage.py", sys.executable, "-c", compiler,
                               "-o", self.build / "a.cu.o"], capture_output=True, text=True)

    def ledger(self, arch: str = "sm_90") -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-B", ROOT / "tools/ptxas_ledger.py", self.build, "--arch", arch,
                               "--out", self.build / "ledger.md"], capture_output=True, text=True)

    def test_rows_are_those_of_the_architecture(self):
        run = self.compile(says("sm_90", SCAN, 253, shared=", 16 bytes smem") + says("sm_100", SCAN, 168))
        self.assertEqual((run.returncode, run.stderr.strip()), (0, ""))
        self.assertEqual(self.ledger().returncode, 0)
        text = (self.build / "ledger.md").read_text()
        self.assertIn("| `fla_chunk_scan<Shape<add, true, 128, 1>>` | 253 | 16 | 0 | 0 |", text)
        self.assertNotIn("168", text)

    def test_spill_fails(self):
        self.compile(says("sm_90", "_Z4fastv", 32) + says("sm_90", "_Z4slowv", 255, spills=8))
        run = self.ledger()
        self.assertEqual((run.returncode, run.stderr), (1, "slow spills\n"))

    def test_no_kernel_is_an_error(self):
        self.assertEqual(self.ledger().returncode, 2)

    def test_errors_pass_through(self):
        run = self.compile("a.cu(1): error: no", 3)
        self.assertEqual(run.returncode, 3)
        self.assertIn("error: no", run.stderr)


if __name__ == "__main__":
    unittest.main()
