#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Format check, layer check, Python check and clang-tidy. `make lint` and `make format` call it.

usage: lint.py [--fix] [--build DIR] [--jobs N] [FILE...]
  --fix     format the files in place and stop
  --build   the build folder whose compile_commands.json clang-tidy reads (left out: no clang-tidy)
  FILE      run clang-tidy on these files of src/ alone
"""

import argparse
import compileall
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = (".h", ".c", ".cpp", ".cu", ".cuh")


def files_of_tree() -> list[str]:
    """What git tracks or would track, relative to the root."""
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                             check=True, capture_output=True, text=True).stdout
    return sorted({path for path in listing.splitlines() if (ROOT / path).is_file()})


def clang_format(files: list[str], fix: bool) -> bool:
    mode = ["-i"] if fix else ["--dry-run", "--Werror"]
    return subprocess.run(["clang-format-14", *mode, *files], cwd=ROOT).returncode == 0


def python_compiles(files: list[str]) -> bool:
    return all([compileall.compile_file(ROOT / path, quiet=1) for path in files])


def tidy_one(build: Path, source: str) -> tuple[str, float, str]:
    start = time.monotonic()
    # -w: compiler warnings are the build's business, and clang's differ from gcc's.
    run = subprocess.run(["clang-tidy-14", "--quiet", "--warnings-as-errors=*", "--extra-arg=-w", "-p", build, source],
                         cwd=ROOT, capture_output=True, text=True)
    return source, time.monotonic() - start, run.stdout + run.stderr if run.returncode != 0 else ""


def clang_tidy(build: Path, only: list[str], jobs: int) -> bool:
    database = json.loads((build / "compile_commands.json").read_text())
    sources = {entry["file"] for entry in database
               if entry["file"].startswith(f"{ROOT}/src/") and entry["file"].endswith(".cpp")}
    if only:
        sources &= {str(Path(path).resolve()) for path in only}
    clean = True
    with ThreadPoolExecutor(jobs) as pool:
        for number, (source, seconds, text) in enumerate(pool.map(lambda s: tidy_one(build, s), sorted(sources)), 1):
            print(f"[{number}/{len(sources)}] {Path(source).relative_to(ROOT)} {seconds:.1f} s", flush=True)
            if text:
                clean = False
                print(text, flush=True)
    return clean


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()

    tree = files_of_tree()
    code = [path for path in tree if path.endswith(CODE)]
    if arguments.fix:
        return 0 if clang_format(code, fix=True) else 1

    steps = {
        "format (repair: make format)": lambda: clang_format(code, fix=False),
        "layers": lambda: subprocess.run([sys.executable, ROOT / "tools/check_layers.py", ROOT]).returncode == 0,
        "python": lambda: python_compiles([path for path in tree if path.endswith(".py")]),
    }
    if arguments.build:
        steps["clang-tidy"] = lambda: clang_tidy(arguments.build.resolve(), arguments.files, arguments.jobs)
    failed = []
    for name, step in steps.items():
        print(f"== lint: {name}", flush=True)
        if not step():
            failed.append(name)
    if failed:
        print(f"lint failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
