# SPDX-License-Identifier: MIT
"""tools/check_layers.py finds each kind of fault in a bad tree, and nothing in a good one."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADER = "// SPDX-License-Identifier: MIT\n// A file.\n"


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("include/fla/op.h", HEADER + "#pragma once\n")
        self.write("src/core/half.h", HEADER + "#pragma once\n")
        self.write("src/cpu/launch.h", HEADER + "#pragma once\n")
        self.write("src/cpu/kernels.h", HEADER + "#pragma once\n")
        self.write("src/cuda/chunk_add/fwd_mma.cuh", HEADER + "#pragma once\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def findings(self) -> str:
        run = subprocess.run([sys.executable, ROOT / "tools/check_layers.py", self.root], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1 if run.stdout else 0, run.stderr)
        return run.stdout

    def test_accepts_a_good_tree(self):
        self.write("src/ops/kda.cpp", HEADER + '#include "core/half.h"\n#include "cpu/launch.h"\n#include "fla/op.h"\n')
        self.write("src/ops/text.cpp", HEADER + 'const char* kText = "exit(1) printf(";  // abort()\n')
        self.write("src/cli/main.cpp", HEADER + "#include <cstdio>\nvoid f() { std::printf(\"x\"); }\n")
        self.assertEqual(self.findings(), "")

    def test_rejects_forbidden_edges(self):
        bad = {
            "src/core/a.cpp": "cpu/launch.h",
            "src/ref/a.cpp": "cpu/launch.h",
            "src/cpu/a.cpp": "ops/registry.h",
            "src/ops/a.cpp": "cpu/kernels.h",
            "src/perf/a.cpp": "cpu/kernels.h",
            "src/cuda/runtime/a.cpp": "cuda/chunk_add/fwd_mma.cuh",
            "include/fla/a.h": "core/half.h",
            "examples/a.c": "core/half.h",
        }
        self.write("src/ops/registry.h", HEADER + "#pragma once\n")
        for path, target in bad.items():
            with self.subTest(path):
                self.write(path, HEADER + f'#pragma once\n#include "{target}"\n')
                self.assertIn(f'{path}:4: room', self.findings())
                (self.root / path).unlink()

    def test_rejects_device_code_and_cuda_headers_outside_cuda(self):
        self.write("src/ops/a.cpp", HEADER + '#include "cuda/chunk_add/fwd_mma.cuh"\n#include <cuda_runtime.h>\n')
        self.write("src/cuda/runtime/a.h", HEADER + "#pragma once\n#include <cuda_runtime.h>\n")
        found = self.findings()
        self.assertIn("src/ops/a.cpp:3: ", found)
        self.assertIn("src/ops/a.cpp:4: ", found)
        self.assertIn("src/cuda/runtime/a.h:4: ", found)

    def test_rejects_a_relative_include(self):
        self.write("src/cpu/a.cpp", HEADER + '#include "kernels.h"\n')
        self.assertIn("no full path", self.findings())

    def test_rejects_printing_ending_and_the_environment(self):
        for statement in ('printf("x")', "std::exit(1)", "abort()", "std::cout << 1", 'fmt::print("x")', 'getenv("X")'):
            with self.subTest(statement):
                self.write("src/cpu/a.cpp", HEADER + f"void f() {{ {statement}; }}\n")
                self.assertIn("src/cpu/a.cpp:3: ", self.findings())

    def test_rejects_bad_files(self):
        cases = {
            "src/cpu/a.cpp": "// Copyright\n// A file.\n",
            "src/cpu/b.cpp": "// SPDX-License-Identifier: MIT\n#include <vector>\n",
            "src/cpu/c.h": HEADER + "int x();\n",
            "src/cpu/d.h": HEADER + "#pragma once\nusing namespace std;\n",
            "src/cpu/e.cpp": HEADER + "// caf\u00e9\n",
            "tools/f.py": "print(1)\n",
        }
        for path, text in cases.items():
            with self.subTest(path):
                self.write(path, text)
                self.assertIn(f"{path}:", self.findings())
                (self.root / path).unlink()


if __name__ == "__main__":
    unittest.main()
