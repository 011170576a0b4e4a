// SPDX-License-Identifier: MIT
// From what the user asks to a plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/evidence/config.h"
#include "perf/evidence/plan.h"

namespace fla::perf::evidence {

struct Request {
  std::string repo;  // its top folder
  std::string base;
  std::string head = "worktree";
  std::string run_name;  // empty: OP_MODE_DATE
  std::string created;   // UTC, ISO 8601

  // Rows of our own operators.
  std::vector<std::string> ops;
  bool from_diff = false;  // the ops that own the changed files
  std::vector<std::string> modes = {"fwd"};
  std::vector<std::string> shapes;
  std::string custom_shapes;
  std::vector<std::string> dtypes;
  std::vector<std::string> varlen = {"ragged"};  // sets; none: no varlen rows
  std::string device;                            // cpu, cuda; empty: each bench decides

  // Other commands.
  std::vector<std::string> benches;  // LABEL@COVERAGE=COMMAND
  std::vector<std::string> parsers;  // LABEL=PARSER
  std::vector<std::string> runner_files;
  std::string import_name;
  std::string probe;
  bool seed_shim = true;

  std::string gate;  // a command line, over fla.toml's
  std::string varlen_unsupported;
  std::string kernel;
  std::string profile = "both";
  std::string profile_bench;  // label; empty: the first
  int64_t rounds = 0;         // exactly so many; 0: 6 to 30
  double threshold = 0;       // 0: 1 % for ops, 2 % for train, 3 % for generate
  bool include_untracked = false;
  bool bundled = false;
  bool new_op = false;  // base has no counterpart
  std::vector<std::string> allowed_clones;
};

/// Errors: kInvalidArgument for what cannot be asked (unknown ref, op, parser; nothing to run).
Result<Plan> make_plan(const Request& request, const Config& config);

/// The plan for a person: sides, rows, commands.
std::string to_text(const Plan& plan);

}  // namespace fla::perf::evidence
