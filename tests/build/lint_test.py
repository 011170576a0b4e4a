# SPDX-License-Identifier: MIT
"""tools/lint.py fails on each kind of bad file and passes a clean tree."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADER = "// SPDX-License-Identifier: MIT\n// A file.\n"


@unittest.skipUnless(shutil.which("clang-tidy-14") and shutil.which("clang-format-14"), "needs the lint packages")
class Lint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "tools").mkdir()
        for name in ("lint.py", "check_layers.py"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(ROOT / name, self.root)
        (self.root / "src/core").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def lint(self, source: str, *arguments: str) -> subprocess.CompletedProcess:
        file = self.root / "src/core/a.cpp"
        file.write_text(HEADER + source)
        (self.root / "build").mkdir(exist_ok=True)
        command = f"g++ -std=c++20 -Wno-only-gcc-knows -o a.o -c {file}"
        (self.root / "build/compile_commands.json").write_text(
            json.dumps([{"directory": str(self.root), "file": str(file), "command": command}]))
        return subprocess.run([sys.executable, "-B", self.root / "tools/lint.py", *arguments], cwd=self.root,
                              capture_output=True, text=True)

    def test_clean_tree_passes(self):
        run = self.lint("int twice(int number) { return 2 * number; }\n".replace("{ ", "{\n  ").replace(" }", "\n}"),
                        "--build", "build")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_bad_format_fails_and_fix_repairs_it(self):
        self.assertIn("lint failed: format", self.lint("int   a( );\n").stderr)
        self.assertEqual(self.lint("int   a( );\n", "--fix").returncode, 0)
        self.assertTrue((self.root / "src/core/a.cpp").read_text().endswith("int a();\n"))

    def test_bad_layer_fails(self):
        run = self.lint('#include "cpu/launch.h"\n')
        self.assertEqual(run.returncode, 0, run.stdout)  # no such file: the compiler's business
        (self.root / "src/cpu").mkdir()
        (self.root / "src/cpu/launch.h").write_text(HEADER + "#pragma once\n")
        self.assertIn("lint failed: layers", self.lint('#include "cpu/launch.h"\n').stderr)

    def test_bad_python_fails(self):
        (self.root / "tools/bad.py").write_text("# SPDX-License-Identifier: MIT\n# A file.\ndef f(:\n")
        self.assertIn("lint failed: python", self.lint("int a();\n").stderr)

    def test_tidy_finding_fails(self):
        run = self.lint("enum class Color { red };\n", "--build", "build")
        self.assertIn("lint failed: clang-tidy", run.stderr)
        self.assertIn("readability-identifier-naming", run.stdout)


if __name__ == "__main__":
    unittest.main()
