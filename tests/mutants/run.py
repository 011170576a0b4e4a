#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Seeded faults: each patch of this folder breaks the code in one way, and a named test has to notice.

usage: run.py [--list | --write] [--only TEXT] [--jobs N] [--work DIR]
A patch file NN_name.patch begins with three lines before the diff:
    # fault: what is wrong, in words
    # target: the test program, such as fla_ref_tests
    # expect: the gtest filter of the test that fails
The tests must pass on the untouched tree first. Then each patch is applied to a scratch copy, the program is built
and the test is run. Exit 1 when a fault survives, when a patch no longer applies, or when it does not compile.
"""

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT_SECONDS = 300
BEGIN, END = "<!-- mutants begin -->\n", "<!-- mutants end -->\n"  # around the table in docs/testing.md


@dataclasses.dataclass
class Mutant:
    path: Path
    fault: str
    target: str
    expect: str

    @property
    def files(self) -> list[str]:
        lines = self.path.read_text().splitlines()
        return [line.removeprefix("+++ b/").split("\t")[0] for line in lines if line.startswith("+++ b/")]


def read_mutant(path: Path) -> Mutant:
    fields = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        name, _, value = line.removeprefix("#").partition(":")
        fields[name.strip()] = value.strip()
    missing = {"fault", "target", "expect"} - fields.keys()
    if missing:
        sys.exit(f"{path.name}: the header lacks {', '.join(sorted(missing))}")
    return Mutant(path, fields["fault"], fields["target"], fields["expect"])


def sync_tree(tree: Path) -> None:
    """Makes `tree` a copy of the sources. Equal files are left alone, so that their builds stay fresh."""
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                             capture_output=True, text=True).stdout
    wanted = {path for path in listing.splitlines() if (ROOT / path).is_file()}
    for path in wanted:
        copy = tree / path
        if not copy.exists() or copy.read_bytes() != (ROOT / path).read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, copy)
            shutil.copymode(ROOT / path, copy)
    for file in [file for file in tree.rglob("*") if file.is_file()]:
        if file.relative_to(tree).as_posix() not in wanted:
            file.unlink()


def apply(mutant: Mutant, tree: Path) -> str:
    """Applies the patch; returns why it did not apply, or nothing."""
    # The tree lies inside the repository's folder: keep git from taking that for the place to patch.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}
    run = subprocess.run(["git", "apply", mutant.path], cwd=tree, env=environment, capture_output=True, text=True)
    return run.stderr.strip()


def build(folder: Path, targets: list[str], jobs: int) -> str:
    run = subprocess.run(["cmake", "--build", folder, "-j", str(jobs), "--target", *targets], capture_output=True,
                         text=True)
    return "" if run.returncode == 0 else run.stdout[-3000:] + run.stderr[-1000:]


def run_test(folder: Path, mutant: Mutant) -> str:
    """"passed", "failed", "hung" or "matches no test"."""
    command = [folder / mutant.target, f"--gtest_filter={mutant.expect}"]
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return "hung"
    if " 0 tests ran" in run.stdout or "Running 0 tests" in run.stdout:
        return "matches no test"
    return "passed" if run.returncode == 0 else "failed"


def judge(mutant: Mutant, tree: Path, folder: Path, jobs: int) -> str:
    """"caught", or what went wrong."""
    try:
        if refused := apply(mutant, tree):
            return f"no longer applies: {refused}"
        if errors := build(folder, [mutant.target], jobs):
            return f"does not compile:\n{errors}"
        outcome = run_test(folder, mutant)
        return "caught" if outcome in ("failed", "hung") else f"SURVIVED: test {outcome}"
    finally:
        sync_tree(tree)


def check_baseline(mutants: list[Mutant], folder: Path, jobs: int) -> bool:
    print("building the untouched tree", file=sys.stderr, flush=True)
    if errors := build(folder, sorted({mutant.target for mutant in mutants}), jobs):
        print(f"the untouched tree does not compile:\n{errors}")
        return False
    sound = True
    for mutant in mutants:
        outcome = run_test(folder, mutant)
        if outcome != "passed":
            print(f"{mutant.path.name}: on the untouched tree {mutant.expect} in {mutant.target}: {outcome}")
            sound = False
    return sound


def table(mutants: list[Mutant]) -> str:
    rows = [f"| {mutant.fault} | `{', '.join(mutant.files)}` | `{mutant.expect}` of `{mutant.target}` |\n"
            for mutant in mutants]
    return "| fault | in | caught by |\n|---|---|---|\n" + "".join(rows)


def write_table(mutants: list[Mutant]) -> None:
    page = ROOT / "docs/testing.md"
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(before + BEGIN + table(mutants) + END + after)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the table of docs/testing.md")
    parser.add_argument("--write", action="store_true", help="write that table into docs/testing.md")
    parser.add_argument("--only", default="", help="only the patches whose file name has this text")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", type=Path, default=ROOT / "build-mutants", help="where to copy and build")
    parser.add_argument("--patches", type=Path, default=HERE, help="the folder of patches")
    arguments = parser.parse_args()

    mutants = [read_mutant(path) for path in sorted(arguments.patches.glob("*.patch")) if arguments.only in path.name]
    if not mutants:
        sys.exit("run.py: no patch file")
    if arguments.list:
        print(table(mutants), end="")
        return 0
    if arguments.write:
        write_table(mutants)
        return 0

    tree, folder = arguments.work.resolve() / "tree", arguments.work.resolve() / "build"
    sync_tree(tree)
    # Without debug information: half the compile time.
    subprocess.run(["cmake", "--preset", "cpu", "-B", folder, "-DCMAKE_BUILD_TYPE=Release"], cwd=tree, check=True,
                   stdout=subprocess.DEVNULL)
    if not check_baseline(mutants, folder, arguments.jobs):
        return 1
    survived = 0
    for number, mutant in enumerate(mutants, 1):
        start = time.monotonic()
        verdict = judge(mutant, tree, folder, arguments.jobs)
        survived += verdict != "caught"
        print(f"[{number}/{len(mutants)}] {mutant.path.stem:40} {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{len(mutants) - survived} of {len(mutants)} seeded faults caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
