#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a compile command and fails when ptxas serialised wgmma (C75xx) or ignored setmaxnreg.

usage: check_ptxas.py COMMAND...     Used as a compiler launcher. Spills are errors of ptxas itself.
ptxas only remarks on both, and the program still gives right results: slower ones.
"""

import re
import subprocess
import sys

BAD = re.compile(r"\bC75\d\d\b|setmaxnreg|serializ", re.IGNORECASE)


def main() -> int:
    run = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    sys.stderr.write(run.stdout)
    remarks = [line for line in run.stdout.splitlines() if BAD.search(line)]
    if run.returncode == 0 and remarks:
        print(f"check_ptxas.py: {len(remarks)} remarks of ptxas on wgmma or setmaxnreg", file=sys.stderr)
        return 1
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
