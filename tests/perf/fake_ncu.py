#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Plays Nsight Compute for tests: it runs the program, "collects" recorded pages, prints them.

FAKE_NCU_MODE picks what happens: ok, permission, busy, busy_once, unsupported, repz, killed,
no_samples, no_sol, old_sections, slow. FAKE_NCU_LOG names a file that gets one line of JSON for
each call: its arguments. The kernels that "ran" are those of LAUNCHES.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "ncu")
MODE = os.environ.get("FAKE_NCU_MODE", "ok")

# name, registers, duration in us; the tuner tries 32 registers once, then keeps 16.
LAUNCHES = [("fill(float *)", 8, 10.0), ("axpy(float *, const float *, float, unsigned long)", 32, 99.0),
            ("axpy(float *, const float *, float, unsigned long)", 16, 80.0),
            ("axpy(float *, const float *, float, unsigned long)", 16, 81.0)]

VALUED = {"--set", "--section", "-k", "-c", "-s", "-o", "--metrics", "--page", "--log-file",
          "--config-file", "--clock-control", "--kill", "--import-source", "--kernel-name-base",
          "--profile-from-start", "--import", "--export", "--print-units", "--print-kernel-base",
          "--print-metric-instances", "--print-source"}
FLAGS = {"--version", "--list-sets", "--list-sections", "--csv", "--print-fp"}


def parse(words):
    options = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in VALUED:
            options.setdefault(word, []).append(words.pop(0))
        elif word in FLAGS:
            options[word] = [""]
        else:
            print(f"==ERROR== unrecognised option '{word}'")
            sys.exit(1)
    return options, words


def page(name):
    with open(os.path.join(FIXTURES, name), encoding="utf-8") as file:
        return file.read()


def import_report(options):
    """The page asked for, from the recorded ones; the report says what it must lack."""
    with open(options["--import"][0], encoding="utf-8") as file:
        report = json.load(file)
    if "--export" in options:
        with open(options["--export"][0], "w", encoding="utf-8") as file:
            json.dump(report, file)
        return
    kind = options["--page"][0]
    if kind == "raw":
        text = page("raw.csv")
        if report["mode"] == "no_sol":
            text = text.replace("sm__throughput.avg.pct", "gone__throughput.avg.pct")
        sys.stdout.write(text)
    elif kind == "details":
        sys.stdout.write(page("details.csv"))
    else:
        text = page("source.csv")
        if report["mode"] == "no_samples":
            text = text.replace("Warp Stall Sampling (All Samples)", "x").replace("# Samples", "y")
        sys.stdout.write(text)


def expression(options):
    return re.compile(options.get("-k", ["regex:."])[0].removeprefix("regex:"))


def matching(options):
    found = [one for one in LAUNCHES if expression(options).search(one[0].split("(")[0])]
    return found[int(options.get("-s", ["0"])[0]):][:int(options["-c"][0])]


def write_census(options, launches, out):
    out.write("==PROF== Connected to process 1\n")
    if not launches:
        no_kernel(out)
        return
    out.write('"ID","Kernel Name","Block Size","Grid Size","CC","gpu__time_duration.sum",'
              '"launch__registers_per_thread","launch__shared_mem_per_block"\n')
    out.write('"","","","","","us","register/thread","Kbyte/block"\n')
    for i, (name, registers, duration) in enumerate(launches):
        out.write(f'"{i}","{name}","(256, 1, 1)","(1,056, 1, 1)","9.0","{duration}","{registers}","1.024"\n')


def no_kernel(out):
    names = dict.fromkeys(one[0].split("(")[0] for one in LAUNCHES)
    out.write("==WARNING== No kernels were profiled.\nAvailable Kernels:\n")
    for i, name in enumerate(names):
        out.write(f"{i + 1}. {name}\n")


def refuse():
    """The modes in which nothing can be collected."""
    if MODE == "permission":
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
              "Performance Counters on the target device 0.")
        sys.exit(1)
    if MODE == "unsupported":
        print("==ERROR== Cuda driver is not compatible with Nsight Compute.")
        sys.exit(1)
    if MODE == "busy" or (MODE == "busy_once" and calls() == 1):
        print("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no "
              "other tool (like DCGM) is concurrently collecting profiling data.")
        sys.exit(1)


def calls():
    """How often a program was profiled so far, this call included."""
    with open(os.environ["FAKE_NCU_LOG"], encoding="utf-8") as file:
        return sum("-c" in json.loads(line) for line in file)


def collect(options, program):
    refuse()
    print("==PROF== Connected to process 1")
    status = subprocess.run(program, check=False).returncode
    if status != 0:
        print(f"==ERROR== The application returned an error code ({status}).")
        return status
    launches = matching(options)
    if "--log-file" in options:
        with open(options["--log-file"][0], "w", encoding="utf-8") as out:
            write_census(options, launches, out)
        return 0
    if "source" in options.get("--set", []):
        print("==WARNING== No metrics to collect found in set source.")
    if not launches:
        no_kernel(sys.stdout)
        return 0
    path = options["-o"][0]
    if not path.endswith(".ncu-rep"):
        path += ".ncu-repz" if MODE == "repz" else ".ncu-rep"
    text = json.dumps({"mode": MODE, "set": options["--set"]})
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:10] if MODE == "killed" else text)
    if MODE == "killed":
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "slow":
        time.sleep(30)
    return 0


def main():
    if "FAKE_NCU_LOG" in os.environ:
        with open(os.environ["FAKE_NCU_LOG"], "a", encoding="utf-8") as file:
            file.write(json.dumps(sys.argv[1:]) + "\n")
    options, program = parse(sys.argv[1:])
    if "--version" in options:
        print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1) (public)")
    elif "--list-sets" in options:
        print("Identifier Sections Enabled\nbasic ...\ndetailed ...\nfull ...\nroofline ...")
    elif "--list-sections" in options:
        print("SpeedOfLight ...\nSourceCounters ...")
        if MODE != "old_sections":
            print("PmSampling ...\nPmSampling_WarpStates ...")
    elif "--import" in options:
        import_report(options)
    else:
        return collect(options, program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
