# SPDX-License-Identifier: MIT
"""The documents keep what they promise: lengths, generated tables, links to files that exist."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


class Docs(unittest.TestCase):
    def test_readme_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), 150)

    def test_table_of_seeded_faults_is_current(self):
        table = subprocess.run([sys.executable, "-B", ROOT / "tests/mutants/run.py", "--list"], check=True,
                               capture_output=True, text=True).stdout
        self.assertTrue(table in (ROOT / "docs/testing.md").read_text(), "run tests/mutants/run.py --write")

    def test_links_lead_to_files(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
                self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")

    def test_named_sources_exist(self):
        for page in PAGES:
            for path in re.findall(r"`((?:src|include|tests|tools|cmake)/[\w/.-]+\.\w+)`", page.read_text()):
                self.assertTrue((ROOT / path).exists(), f"{page.name}: {path}")


if __name__ == "__main__":
    unittest.main()
