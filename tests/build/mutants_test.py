# SPDX-License-Identifier: MIT
"""tests/mutants/run.py tells a caught fault from one that survives, no longer applies, or does not compile."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = "int add(int a, int b) {\n  return a + b;\n}\n"
PROGRAM = """#include <cstdio>
#include <cstring>
int add(int a, int b);
int main(int, char** argv) {
  if (std::strstr(argv[1], "NoSuch") != nullptr) return std::puts("[==========] 0 tests ran."), 0;
  return add(1, 0) == 1 ? 0 : 1;
}
"""
PATCH = """# fault: {name}
# target: unit
# expect: Add.Works
--- a/add.cpp
+++ b/add.cpp
@@ -1,3 +1,3 @@
 int add(int a, int b) {{
-  {old}
+  {new}
 }}
"""


class Mutants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "tests/mutants").mkdir(parents=True)
        shutil.copy(ROOT / "tests/mutants/run.py", self.root / "tests/mutants")
        (self.root / "add.cpp").write_text(SOURCE)
        (self.root / "unit.cpp").write_text(PROGRAM)
        (self.root / ".gitignore").write_text("/build-*/\n")
        (self.root / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\n"
                                                  "add_executable(unit add.cpp unit.cpp)\n")
        (self.root / "CMakePresets.json").write_text(json.dumps(
            {"version": 6, "configurePresets": [{"name": "cpu", "generator": "Ninja", "binaryDir": "build"}]}))
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def patch(self, name: str, new: str, old: str = "return a + b;") -> None:
        text = PATCH.format(name=name, new=new, old=old)
        (self.root / f"tests/mutants/{name}.patch").write_text(text)

    def run_mutants(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-B", self.root / "tests/mutants/run.py", *arguments],
                              capture_output=True, text=True)

    def test_caught_faults_pass_and_the_tree_is_left_alone(self):
        self.patch("01_minus", "return a - b - 1;")
        self.patch("02_half", "return a / 2 + b;")
        run = self.run_mutants()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("2 of 2 seeded faults caught", run.stdout)
        self.assertEqual((self.root / "add.cpp").read_text(), SOURCE)

    def test_every_other_outcome_fails(self):
        self.patch("01_survives", "return a - b;")
        self.patch("02_stale", "return a - b;", old="return a + b + 0;")
        self.patch("03_broken", "return a +;")
        run = self.run_mutants()
        self.assertEqual(run.returncode, 1)
        for text in ("SURVIVED", "no longer applies", "does not compile", "0 of 3"):
            self.assertIn(text, run.stdout)

    def test_test_that_does_not_exist_fails(self):
        self.patch("01_minus", "return a - b - 1;")
        file = self.root / "tests/mutants/01_minus.patch"
        file.write_text(file.read_text().replace("Add.Works", "NoSuch.Test"))
        run = self.run_mutants()
        self.assertEqual(run.returncode, 1)
        self.assertIn("matches no test", run.stdout)

    def test_list_prints_the_table(self):
        self.patch("01_minus", "return a - b - 1;")
        self.assertIn("| 01_minus | `add.cpp` | `Add.Works` of `unit` |", self.run_mutants("--list").stdout)


if __name__ == "__main__":
    unittest.main()
