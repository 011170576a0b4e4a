#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports compile times from ninja's log and fails when a file is over its budget.

usage: compile_time.py BUILD [--top N] [--scale X]
Budgets (seconds on an idle core): .cu 30, test .cpp 12, cli and perf 20 (the headers of CLI11 and nlohmann-json alone
cost 8 and 5), any other .cpp 10. ninja logs wall time, which grows on a busy machine, so a file that looks too slow is
compiled once more, alone, and the CPU time of that run decides. A file that came out of ccache shows next to nothing:
the check bites when a file has changed.
"""

import argparse
import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path


def budget(source: str) -> float:
    if source.endswith(".cu"):
        return 30.0
    if "/src/cli/" in source or "/src/perf/" in source:
        return 20.0
    return 12.0 if "/tests/" in source else 10.0


def wall_seconds(log: Path) -> dict[str, float]:
    """The newest duration of each output in .ninja_log."""
    seconds = {}
    for line in log.read_text().splitlines():
        fields = line.split("\t")
        if len(fields) == 5:  # start ms, end ms, mtime, output, hash; the first line is the log's version
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return seconds


def compile_cpu_seconds(entry: dict) -> float:
    command = shlex.split(entry["command"])
    launchers = [number for number, word in enumerate(command[:5]) if Path(word).name == "ccache"]
    command = command[launchers[0] + 1:] if launchers else command
    output = command.index("-o") + 1
    command[output] += ".timed"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=entry["directory"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(entry["directory"], command[output]).unlink()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--top", type=int, default=10, help="how many of the slowest files to list")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply every budget, for a machine that is slower")
    arguments = parser.parse_args()

    seconds = wall_seconds(arguments.build / ".ninja_log")
    timed = []
    for entry in json.loads((arguments.build / "compile_commands.json").read_text()):
        command = shlex.split(entry["command"])
        output = command[command.index("-o") + 1]
        if output in seconds:
            timed.append((seconds[output], entry))
    timed.sort(key=lambda item: -item[0])
    print(f"{len(timed)} files, {sum(wall for wall, _ in timed):.0f} s in all; the slowest:")
    for wall, entry in timed[: arguments.top]:
        print(f"  {wall:6.1f} s  {entry['file']}")

    over = 0
    for wall, entry in timed:
        limit = budget(entry["file"]) * arguments.scale
        if wall <= limit:
            continue
        cpu = compile_cpu_seconds(entry)
        if cpu > limit:
            over += 1
            print(f"{entry['file']}: {cpu:.1f} s of CPU time, over its budget of {limit:g} s: split the file")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
