# SPDX-License-Identifier: MIT
"""tools/install_deps.sh installs what is missing and nothing else, and says what it needs where there is no apt."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
APT = '#!/bin/sh\necho "$@" >> "$CALLS"\n'


class InstallDeps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = Path(folder.name)
        self.calls = self.bin / "calls"
        self.calls.write_text("")
        for name in ("bash", "env"):
            (self.bin / name).symlink_to(f"/usr/bin/{name}")
        self.script("sudo", '#!/bin/sh\nexec "$@"\n')

    def script(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run_with(self, *arguments: str) -> subprocess.CompletedProcess:
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls)}
        return subprocess.run(["/usr/bin/bash", ROOT / "tools/install_deps.sh", *arguments], env=environment,
                              capture_output=True, text=True)

    def test_installs_only_what_is_missing(self):
        self.script("apt-get", APT)
        self.script("dpkg-query", '#!/bin/sh\ncase "$*" in *cmake) exit 1;; *) echo installed;; esac\n')
        self.assertEqual(self.run_with().returncode, 0)
        self.assertEqual(self.calls.read_text(), "update -qq\ninstall -y -qq --no-install-recommends cmake\n")

    def test_calls_no_apt_when_all_is_there(self):
        self.script("apt-get", APT)
        self.script("dpkg-query", "#!/bin/sh\necho installed\n")
        self.assertEqual(self.run_with("--lint").returncode, 0)
        self.assertEqual(self.calls.read_text(), "")

    def test_lists_the_packages_where_there_is_no_apt(self):
        run = self.run_with()
        self.assertEqual(run.returncode, 1)
        self.assertIn("ninja-build", run.stderr)

    def test_refuses_an_unknown_argument(self):
        self.assertEqual(self.run_with("--everything").returncode, 2)


if __name__ == "__main__":
    unittest.main()
