#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a compile command of nvcc and keeps what `-Xptxas=-v` says of its kernels in OBJECT.ptxas.

usage: ptxas_usage.py COMMAND...     Used as a compiler launcher; tools/ptxas_ledger.py reads the files.
"""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    command = sys.argv[1:]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    usage = [line for line in run.stdout.splitlines() if line.startswith("ptxas info") or "bytes stack frame" in line]
    sys.stderr.writelines(line + "\n" for line in run.stdout.splitlines() if line not in usage)
    if "-o" in command:
        Path(command[command.index("-o") + 1] + ".ptxas").write_text("\n".join(usage) + "\n", encoding="ascii")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
