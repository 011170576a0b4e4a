#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what no compiler checks: who includes whom, who may print, file headers, ASCII sources.

usage: check_layers.py [ROOT]     exit 0: clean; exit 1: one line a finding, "path:line: what"
"""

import fnmatch
import re
import sys
from pathlib import Path

# The allowed include edges: room -> patterns of the paths (from src/ or include/) that it may include besides its own
# files. A room is a folder of src/, except that cuda's subfolders are rooms of their own.
CORE = ["core/*", "fla/*"]
EDGES = {
    "include": ["fla/*"],
    "core": CORE,
    "ref": CORE,
    "cpu": CORE,
    "cuda": CORE,
    "cuda/runtime": [*CORE, "cuda/device/*.h"],
    "cuda/device": [],
    "cuda/*": [*CORE, "cuda/runtime/*.h", "cuda/device/*"],
    "ops": [*CORE, "cpu/launch.h", "cpu/modules.h", "ref/launch.h", "ref/modules.h", "cuda/instance_list.h", "cuda/*/launch.h",
            "cuda/*/params.h"],
    "model": [*CORE, "ops/*", "cuda/runtime/*.h"],
    "perf": [*CORE, "ops/*", "model/*", "cuda/runtime/*.h"],
    "cli": [*CORE, "ops/*", "model/*", "perf/*"],
    "examples": ["fla/*"],
    "tests": ["*"],
    "tools": ["*"],
}
LICENCE = "SPDX-License-Identifier: MIT"
GETENV_FILE = "src/cli/log.cpp"  # the one file that may read the environment (FLA_LOG)

CODE = {".h", ".c", ".cpp", ".cu", ".cuh"}
SCRIPTS = {".py", ".sh"}
ASCII_ONLY = CODE | SCRIPTS | {".cmake", ".txt", ".json", ".in"}
FOLDERS = ["include", "src", "tests", "examples", "tools", "cmake"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
PRINTS = re.compile(r"\b(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|abort|exit|_exit|_Exit|quick_exit"
                    r"|terminate)\s*\(|\bstd::(cout|cerr|clog)\b|\bfmt::print\b")
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")
CUDA_HEADER = re.compile(r"^(cuda|cublas|nvml|nccl|mma|cooperative_groups)")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                      r"|'(?:\\.|[^'\\\n])'", re.DOTALL)


def blank(match: re.Match) -> str:
    """Keeps the line breaks of a comment or string so that line numbers stay right."""
    return re.sub(r"[^\n]", " ", match.group(0))


def room_of(path: str) -> str:
    parts = path.split("/")
    if parts[0] != "src":
        return parts[0]
    return "/".join(parts[1:3]) if parts[1] == "cuda" and len(parts) > 3 else parts[1]


def allowed(room: str, target: str) -> bool:
    own = f"{room}/*"
    patterns = EDGES.get(room) or (EDGES["cuda/*"] if room.startswith("cuda/") else [])
    return any(fnmatch.fnmatch(target, pattern) for pattern in [own, *patterns])


def check_include(path: str, target: str, quoted: bool, root: Path) -> str | None:
    room = room_of(path)
    if not quoted:
        needs_cuda = CUDA_HEADER.match(target) and not target.startswith("cuda/")
        plain_header = path.endswith(".h") and not path.startswith("src/cuda/device/")
        if needs_cuda and (plain_header or not room.startswith(("cuda", "tests", "tools"))):
            return f"<{target}> is a CUDA header; only .cpp, .cu and .cuh files of src/cuda may include those"
        return None
    if not any((root / base / target).exists() for base in ("include", "src", ".")):
        if room != "tests" and (root / path).parent.joinpath(target).exists():
            return f'"{target}" is no full path from src/ or include/'
        return None  # a generated header or a third-party one; the compiler says whether it exists
    if target.endswith(".cuh") and not path.startswith(("src/cuda/", "tests/cuda/", "tools/lab/")):
        return f'"{target}" is device code; no .cuh leaves src/cuda'
    if not allowed(room, target):
        return f'room "{room}" may not include "{target}" (tools/check_layers.py: EDGES)'
    return None


def check_code(path: str, text: str, root: Path) -> list[tuple[int, str]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            finding = check_include(path, match.group(2), match.group(1) == '"', root)
            if finding:
                found.append((number, finding))
    library = path.startswith(("src/", "include/")) and not path.startswith("src/cli/")
    for number, line in enumerate(NOT_CODE.sub(blank, text).splitlines(), 1):
        if library and PRINTS.search(line):
            found.append((number, "only src/cli prints or ends the process; the library returns a Status"))
        if path.startswith("src/") and path != GETENV_FILE and GETENV.search(line):
            found.append((number, f"getenv is allowed in {GETENV_FILE} alone"))
        if path.endswith((".h", ".cuh")) and USING_NAMESPACE.match(line):
            found.append((number, "no 'using namespace' in a header"))
    if path.endswith((".h", ".cuh")) and path != "include/fla/fla.h" and "#pragma once" not in text:
        if not path.endswith("-inl.h"):  # Highway reads these once a target
            found.append((1, "a header needs #pragma once"))
    return found


def check_header(path: str, text: str) -> list[tuple[int, str]]:
    suffix = Path(path).suffix
    mark = "#" if suffix in SCRIPTS else "//"
    lines = text.splitlines()
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    if not lines or lines[0] not in (f"{mark} {LICENCE}", f"/* {LICENCE} */"):
        return [(1, f"first line must be '{mark} {LICENCE}'")]
    says = lines[1] if len(lines) > 1 else ""
    if not re.match(rf'({mark}|/\*|""")\s*\S', says):
        return [(2, "second line must say what the file is for")]
    return []


def check_tree(root: Path) -> list[str]:
    findings = []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root).as_posix()
            if not file.is_file() or "__pycache__" in path or file.suffix not in ASCII_ONLY:
                continue
            try:
                text = file.read_bytes().decode("ascii")
            except UnicodeDecodeError as error:
                line = file.read_bytes()[:error.start].count(b"\n") + 1
                findings.append(f"{path}:{line}: not ASCII")
                continue
            found = check_header(path, text) if file.suffix in CODE | SCRIPTS else []
            found += check_code(path, text, root) if file.suffix in CODE else []
            findings += [f"{path}:{line}: {what}" for line, what in found]
    return findings


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    if not (root / "src").is_dir():
        print(f"check_layers.py: {root} has no src/", file=sys.stderr)
        return 2
    findings = check_tree(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
