# SPDX-License-Identifier: MIT
"""An installed copy works: find_package(fla) in a project of its own, and the binary."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = os.environ["FLA_BUILD"]
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(fla 0.1 REQUIRED)
add_executable(consumer main.c)
target_link_libraries(consumer PRIVATE fla::fla)
"""
PROGRAM = """
#include <fla/fla.h>
#include <stdio.h>
int main(void) {
  printf("abi %d\\n", (int)fla_abi_version());
  return 0;
}
"""


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = Path(cls.folder.name, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, capture_output=True)

    def test_consumer_project_builds_and_runs(self):
        consumer = Path(self.folder.name, "consumer")
        consumer.mkdir()
        (consumer / "CMakeLists.txt").write_text(PROJECT)
        (consumer / "main.c").write_text(PROGRAM)
        for command in (["cmake", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-B", "build"],
                        ["cmake", "--build", "build"]):
            run = subprocess.run(command, cwd=consumer, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        run = subprocess.run([consumer / "build/consumer"], capture_output=True, text=True)
        self.assertRegex(run.stdout, r"^abi \d+\n$")

    def test_installed_binary_runs(self):
        run = subprocess.run([self.prefix / "bin/fla", "--version"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_documents_are_installed(self):
        self.assertTrue((self.prefix / "share/doc/fla/README.md").is_file())
        self.assertTrue((self.prefix / "share/doc/fla/LICENSE").is_file())


if __name__ == "__main__":
    unittest.main()
