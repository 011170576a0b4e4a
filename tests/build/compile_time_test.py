# SPDX-License-Identifier: MIT
"""tools/compile_time.py passes a quick file and fails a slow one, by CPU time and not by ninja's wall time alone."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BURN = "import sys, time\nopen(sys.argv[2], 'w')\nwhile time.process_time() < {seconds}: pass\n"


class CompileTime(unittest.TestCase):
    def run_on(self, source: str, wall_ms: int, cpu_seconds: float) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            compiler = Path(folder, "compiler.py")
            compiler.write_text(BURN.format(seconds=cpu_seconds))
            Path(folder, ".ninja_log").write_text(f"# ninja log v5\n0\t{wall_ms}\t0\ta.o\tabc\n")
            command = f"ccache {sys.executable} {compiler} -o a.o"
            Path(folder, "compile_commands.json").write_text(
                json.dumps([{"directory": folder, "file": source, "command": command}]))
            return subprocess.run([sys.executable, ROOT / "tools/compile_time.py", folder, "--scale", "0.05"],
                                  capture_output=True, text=True)

    def test_quick_file_passes(self):
        self.assertEqual(self.run_on("/x/src/a.cpp", 450, 0).returncode, 0)

    def test_file_that_only_waited_passes(self):
        self.assertEqual(self.run_on("/x/src/a.cpp", 25000, 0).returncode, 0)

    def test_slow_file_fails(self):
        run = self.run_on("/x/src/a.cpp", 25000, 0.6)
        self.assertEqual(run.returncode, 1)
        self.assertIn("/x/src/a.cpp", run.stdout)
        self.assertIn("budget of 0.5 s", run.stdout)

    def test_cuda_files_and_tests_have_their_own_budget(self):
        self.assertEqual(self.run_on("/x/src/cuda/a.cu", 1400, 60).returncode, 0)
        self.assertEqual(self.run_on("/x/tests/cpu/a.cpp", 550, 60).returncode, 0)


if __name__ == "__main__":
    unittest.main()
