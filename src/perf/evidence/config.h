// SPDX-License-Identifier: MIT
// The two TOML files: fla.toml of a repository, human.toml of a run.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "perf/hardware/hardware.h"

namespace fla::perf::evidence {

/// fla.toml. Commands are lines that host::split_words takes apart; they run in a side's folder.
struct Config {
  /// Files whose change calls for evidence; a pattern without a slash is matched by file name.
  std::vector<std::string> kernel_globs = {"fla/ops/**", "fla/modules/**", "src/**", "include/**",
                                           "kernels/**", "*.cu",           "*.cuh"};
  std::vector<std::string> build;         // none: nothing is built
  std::vector<std::string> bundle_build;  // for a machine that builds nothing
  std::vector<std::string> bundle_files;  // globs of what such a machine needs of a built side
  std::string binary;                     // of a built side, prints its tree id; "build/fla"
  std::vector<std::string> runner_globs;  // files that measure: equal on both sides
  std::string gate;                       // correctness test, run on head
  std::map<std::string, std::vector<std::string>> owners;  // glob to the ops that it can change
  std::map<std::string, std::string> hardware;  // glob of a card's name to its class at most
};

/// Errors: kIo with file, line and the key at fault.
Result<Config> parse_config(const std::string& name, std::string_view text);
/// The file at the root of the repository, or the defaults where there is none.
Result<Config> load_config(const std::string& repo);

/// Classifies the card again under the limits whose glob its name matches.
void limit_class(const std::map<std::string, std::string>& limits, Hardware* card);

/// What only a person can say about a run.
struct Human {
  std::string summary;
  std::string conclusion;       // improvement, neutral, trade-off
  std::string conclusion_text;  // the sentence
  std::string risk;
  std::string impact;                               // who is affected
  std::map<std::string, std::string> explanations;  // row key, flag or subject to text
};

Result<Human> parse_human(const std::string& name, std::string_view text);
std::string to_toml(const Human& human);

}  // namespace fla::perf::evidence
