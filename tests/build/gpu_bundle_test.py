# SPDX-License-Identifier: MIT
"""tools/gpu_bundle.py on small programs: what it packs, and what it refuses."""

import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PROGRAM = '#include <omp.h>\n#include <cstdio>\nint main() { std::printf("%d\\n", omp_get_max_threads() > 0); }\n'
RPATH = ["-fopenmp", "-static-libstdc++", "-static-libgcc", "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN"]


class Bundle(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "main.cpp").write_text(PROGRAM)

    def compile(self, *options):
        subprocess.run(["g++", "main.cpp", "-o", "program", *options], cwd=self.folder, check=True)

    def bundle(self, *options):
        return subprocess.run([sys.executable, SOURCE / "tools/gpu_bundle.py", self.folder, "--programs", "program",
                               *options], capture_output=True, text=True)

    def refused(self, says, *options):
        done = self.bundle(*options)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(says, done.stderr)
        self.assertFalse((self.folder / "fla-gpu-bundle.tar").exists())

    def test_packs_the_program_with_its_library(self):
        self.compile(*RPATH)
        done = self.bundle()
        self.assertEqual(done.returncode, 0, done)
        with tarfile.open(self.folder / "fla-gpu-bundle.tar", "r:") as tar:
            self.assertEqual(tar.getnames(), ["fla-gpu-bundle/libgomp.so.1", "fla-gpu-bundle/program"])
            tar.extractall(self.folder)
        ran = subprocess.run([self.folder / "fla-gpu-bundle/program"], capture_output=True, text=True)
        self.assertEqual(ran.stdout, "1\n")

    def test_refuses_a_library_of_this_machine(self):
        (self.folder / "extra.cpp").write_text("int extra() { return 1; }\n")
        subprocess.run(["g++", "-shared", "-fPIC", "extra.cpp", "-o", "libextra.so"], cwd=self.folder, check=True)
        self.compile(*RPATH, "-Wl,--no-as-needed", "-L.", "-lextra", f"-Wl,-rpath-link,{self.folder}")
        self.refused("needs libextra.so")

    def test_refuses_another_search_path(self):
        self.compile("-fopenmp", "-static-libstdc++", "-static-libgcc", "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN")
        self.refused("expected $ORIGIN")

    def test_refuses_what_is_too_large(self):
        self.compile(*RPATH)
        self.refused("over 0.01: libgomp.so.1", "--limit-mib", "0.01")

    def test_refuses_a_program_that_is_not_built(self):
        self.refused("build it first")


if __name__ == "__main__":
    unittest.main()
