// SPDX-License-Identifier: MIT
// What a run of evidence is to do, decided once: two trees, the benchmarks, the rules.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "perf/host/git.h"

namespace fla::perf::evidence {

/// A command that measures. One process of it is one block. In its words {side} stands for the
/// side's folder and {json} for the file that its parser reads.
struct Bench {
  std::string label;
  std::string coverage = "dense";  // or "varlen"
  std::vector<std::string> argv;
  std::string parser = "wall";  // see Parser
};

/// Kernels of a built side: name to digest of their machine code. Empty names: see `note`.
struct DeviceCode {
  std::map<std::string, std::string> kernels;
  std::string digest;  // of all device code together; empty: none found
  std::string note;    // how it was had, or why it was not
};

struct Plan {
  std::string run_name;
  std::string created;  // UTC, ISO 8601
  std::string repo_name;
  host::Tree base;
  host::Tree head;
  bool native = false;  // the sides are built and bring their own `fla`
  bool bundled = false;
  bool new_op = false;  // base has no counterpart: it is neither built nor run
  std::map<std::string, std::string> hardware;  // Config::hardware

  std::vector<std::string> kernel_globs;
  std::vector<std::string> changed_files;  // base to head
  std::vector<std::string> kernel_files;   // those that the globs name

  std::vector<Bench> benches;
  int64_t least_rounds = 6;
  int64_t most_rounds = 30;
  double threshold = 0.01;         // the change below which nobody cares
  std::string varlen_unsupported;  // the reason, when no varlen row is possible

  std::vector<std::string> build;  // command lines, run in each side's folder
  std::string binary;              // below the side's folder; prints the tree by --build-id
  std::map<std::string, DeviceCode> device_code;      // by side; known before the run when bundled
  std::map<std::string, std::string> runner_digests;  // by side: files that measure
  std::vector<std::string> frozen_files;              // taken from head on both sides
  std::vector<std::string> gate;  // argv, run in head's folder; none: not configured

  bool seed_shim = true;           // python programs start with seeded generators
  std::string import_name;         // package that must come from the side's folder; empty: none
  std::vector<std::string> probe;  // prints which build it is; {side} must be in its output

  std::string profile = "both";           // "head", "none"
  std::string kernel;                     // regular expression; empty: the changed kernels
  std::vector<std::string> profile_argv;  // what runs under the profiler
  std::string profile_tag = "kernel";     // reports are full_<tag>_<side>.ncu-rep

  std::vector<std::string> allowed_clones;
  std::vector<std::string> notes;  // for the merge-request text
};

/// "base" and "head".
inline constexpr std::string_view kSides[] = {"base", "head"};
const host::Tree& tree_of(const Plan& plan, std::string_view side);

/// Whether that side is built and run.
bool runs(const Plan& plan, std::string_view side);

/// Schema fla.plan/1.
std::string to_json(const Plan& plan);
/// Errors: kIo for text that is no plan, or of a newer major version.
Result<Plan> parse_plan(const std::string& name, std::string_view text);
/// The plan in a file. Errors: kIo too where it cannot be read.
Result<Plan> load_plan(const std::string& path);

/// Replaces every {name} of the words.
std::vector<std::string> fill_in(const std::vector<std::string>& words,
                                 const std::map<std::string, std::string>& values);

/// "LABEL@COVERAGE=COMMAND LINE", or without "@COVERAGE" dense.
Result<Bench> parse_bench(const std::string& text);

/// SHA-256 over paths and contents of the files of `tree` that the globs name; from git alone.
Result<std::string> digest_files(const std::string& repo, const std::string& tree,
                                 const std::vector<std::string>& globs);

}  // namespace fla::perf::evidence
