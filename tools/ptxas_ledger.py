#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what each CUDA kernel takes of a multiprocessor as a Markdown table.

usage: ptxas_ledger.py BUILD [--arch sm_90] [--out FILE]     FILE: docs/ledger/ARCH.md unless given
Reads what a build with -DFLA_PTXAS_LEDGER=ON left beside its objects. Exit 1 when a kernel spills.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def kernels(build: Path, arch: str) -> list[tuple[str, int, int, int, int]]:
    """(demangled name, registers, static shared, stack, spilled bytes), sorted by name."""
    found = {}
    for path in build.rglob("*.ptxas"):
        name, stack, spills = None, 0, 0
        for line in path.read_text(encoding="ascii").splitlines():
            if match := KERNEL.search(line):
                name = match[1] if match[2] == arch else None
            elif match := STACK.search(line):
                stack, spills = int(match[1]), int(match[2]) + int(match[3])
            elif name and (match := USED.search(line)):
                shared = SHARED.search(line)
                found[name] = (int(match[1]), int(shared[1]) if shared else 0, stack, spills)
    plain = subprocess.run(["c++filt"], input="\n".join(found), check=True, capture_output=True, text=True).stdout
    return sorted((shorten(text), *row) for text, row in zip(plain.splitlines(), found.values()))


def shorten(name: str) -> str:
    """Keeps the kernel and its template arguments: no return type, namespaces or parameters."""
    name = re.sub(r"\(anonymous namespace\)::|\b(\w+::)+(?=\w)", "", name).removeprefix("void ")
    name = re.sub(r"\(Update\)(\d)", lambda match: ("add", "delta", "dplr")[int(match[1])], name)
    return re.sub(r"\((bool|int)\)|\([^()]*\)$", "", name).replace("> >", ">>")


def table(rows: list[tuple[str, int, int, int, int]], arch: str) -> str:
    title = arch if arch == "sm_90" else f"{arch} (compiled, never run)"
    lines = [f"# What ptxas gives each kernel, {title}", "",
             "Registers are a thread's; the rest is bytes. Shared memory is the static part: the chunk kernels ask for",
             "theirs at launch. Made by `tools/ptxas_ledger.py` from a build with `-DFLA_PTXAS_LEDGER=ON`.", "",
             "| kernel | registers | shared | stack | spills |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *("| `{}` | {} | {} | {} | {} |".format(*row) for row in rows)]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = kernels(arguments.build, arguments.arch)
    if not rows:
        print(f"{arguments.build}: no kernel for {arguments.arch}", file=sys.stderr)
        return 2
    out = arguments.out or ROOT / f"docs/ledger/{arguments.arch}.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(table(rows, arguments.arch), encoding="ascii")
    spilling = [row[0] for row in rows if row[4] > 0]
    print(*(f"{name} spills" for name in spilling), sep="\n", end="\n" if spilling else "", file=sys.stderr)
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
