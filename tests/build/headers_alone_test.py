# SPDX-License-Identifier: MIT
"""cmake/headers_alone.cmake rejects a header that leans on its includer, and one that has no guard."""

import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(headers LANGUAGES C CXX)
add_library(fla_flags INTERFACE)
target_include_directories(fla_flags INTERFACE include src)
foreach(package hwy::hwy fmt::fmt-header-only CLI11::CLI11 nlohmann_json::nlohmann_json OpenMP::OpenMP_CXX)
  add_library(${{package}} INTERFACE IMPORTED)
endforeach()
include({ROOT}/cmake/headers_alone.cmake)
"""


class HeadersAlone(unittest.TestCase):
    def build(self, header: str) -> int:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "src/core").mkdir(parents=True)
            Path(folder, "src/core/a.h").write_text(header)
            Path(folder, "src/core/part-inl.h").write_text("no C++ at all\n")
            Path(folder, "CMakeLists.txt").write_text(PROJECT)
            subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", f"{folder}/build"], check=True,
                           capture_output=True)
            return subprocess.run(["cmake", "--build", f"{folder}/build", "--target", "fla_headers_alone"],
                                  capture_output=True).returncode

    def test_accepts_a_complete_header(self):
        self.assertEqual(self.build("#pragma once\n#include <string>\nstruct A { std::string name; };\n"), 0)

    def test_rejects_a_missing_include(self):
        self.assertNotEqual(self.build("#pragma once\nstruct A { std::string name; };\n"), 0)

    def test_rejects_a_missing_guard(self):
        self.assertNotEqual(self.build("struct A {};\n"), 0)


if __name__ == "__main__":
    unittest.main()
