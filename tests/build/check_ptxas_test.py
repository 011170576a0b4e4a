# SPDX-License-Identifier: MIT
"""tools/lab/check_ptxas.py fails on each remark that means slow wgmma, and passes everything else through."""

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class CheckPtxas(unittest.TestCase):
    def compile(self, says: str, code: int = 0) -> subprocess.CompletedProcess:
        compiler = f"import sys\nprint({says!r}, file=sys.stderr)\nsys.exit({code})"
        return subprocess.run([sys.executable, "-B", ROOT / "tools/lab/check_ptxas.py", sys.executable, "-c", compiler],
                              capture_output=True, text=True)

    def test_quiet_compilation_passes(self):
        run = self.compile("ptxas info    : Used 168 registers, used 1 barriers")
        self.assertEqual(run.returncode, 0)
        self.assertIn("168 registers", run.stderr)

    def test_serialised_wgmma_fails(self):
        self.assertEqual(self.compile("ptxas info : (C7514) Potential Performance Loss: ...").returncode, 1)

    def test_ignored_register_request_fails(self):
        self.assertEqual(self.compile("ptxas info : 'setmaxnreg' ignored to maintain ...").returncode, 1)

    def test_failed_compilation_keeps_its_code(self):
        self.assertEqual(self.compile("error", 3).returncode, 3)


if __name__ == "__main__":
    unittest.main()
