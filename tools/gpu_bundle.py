#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Packs the programs of a GPU build with the libraries that they need, for a bare Ubuntu 24.04 with a driver.

usage: gpu_bundle.py BUILD [--programs NAME...] [--out TAR] [--limit-mib N]

Strips fla and fla_gpu_tests of BUILD, puts libhwy and libgomp beside them, and libstdc++ and libgcc_s, which libhwy
needs, and writes a plain tar. Exit 1, saying why, where a program needs anything else from the machine than glibc, a
newer glibc than 2.39, or where the tar is larger than 40 MiB.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TRAVEL = ("libhwy.so.1", "libgomp.so.1", "libstdc++.so.6", "libgcc_s.so.1")
GLIBC = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2")
NEWEST_GLIBC = (2, 39)


class Refused(Exception):
    """Why there is no bundle."""


def output(*command):
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env=os.environ | {"LC_ALL": "C"}).stdout


def needed(file):
    """The libraries that an ELF file names."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--dynamic", file))


def search_path(file):
    """The RPATH of an ELF file; a RUNPATH does not count, for it does not reach what libhwy needs."""
    return re.findall(r"\(RPATH\).*\[(.*)\]", output("readelf", "--dynamic", file))


def newest_glibc(file):
    """The newest symbol version of glibc that an ELF file asks for."""
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", output("readelf", "--version-info", file))
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def resolved(program):
    """The libraries of a program as the loader of this machine finds them: name to path."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", program), re.MULTILINE))


def check(folder, programs):
    """Raises Refused where something would be missing on the bare machine."""
    for file in sorted(folder.iterdir()):
        for name in needed(file):
            if name not in GLIBC and not (folder / name).exists():
                raise Refused(f"{file.name} needs {name}, which is neither glibc's nor in the bundle")
        if newest_glibc(file) > NEWEST_GLIBC:
            raise Refused(f"{file.name} needs glibc {'.'.join(map(str, newest_glibc(file)))}, newer than 2.39")
    for program in programs:
        if search_path(folder / program) != ["$ORIGIN"]:
            raise Refused(f"{program} has the RPATH {search_path(folder / program)}, expected $ORIGIN")
        for name, path in resolved(folder / program).items():
            if name in TRAVEL and Path(path).parent.resolve() != folder.resolve():
                raise Refused(f"{program} takes {name} from {path} and not from beside it")


def fill(folder, build, programs):
    """Copies the programs, stripped, and the libraries that travel."""
    for program in programs:
        source = build / program
        if not source.exists():
            raise Refused(f"{source} is not there; build it first")
        output("strip", "-o", folder / program, source)
        for name, path in resolved(source).items():
            if name in TRAVEL and not (folder / name).exists():
                shutil.copy(Path(path).resolve(), folder / name)


def pack(folder, out):
    """Writes the tar: the same bytes for the same files."""
    def plain(info):
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        info.mode = 0o755
        return info

    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(folder.iterdir()):
            tar.add(file, arcname=f"fla-gpu-bundle/{file.name}", filter=plain)


def main():
    """Runs the program; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--programs", nargs="+", default=["fla", "fla_gpu_tests"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--limit-mib", type=float, default=40)
    options = parser.parse_args()
    out = options.out or options.build / "fla-gpu-bundle.tar"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            fill(folder, options.build, options.programs)
            check(folder, options.programs)
            sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
            pack(folder, out)
            if out.stat().st_size > options.limit_mib * 2**20:
                listing = ", ".join(f"{name} {size / 2**20:.1f} MiB" for name, size in sizes.items())
                raise Refused(f"{out} has {out.stat().st_size / 2**20:.1f} MiB, over {options.limit_mib:g}: {listing}")
        except Refused as reason:
            out.unlink(missing_ok=True)
            print(f"gpu_bundle.py: {reason}", file=sys.stderr)
            return 1
    print(f"{out}: {out.stat().st_size / 2**20:.1f} MiB; unpack and run fla-gpu-bundle/fla")
    return 0


if __name__ == "__main__":
    sys.exit(main())
