// SPDX-License-Identifier: MIT
// The command lines of the profiler: the two passes, the census of launches, the exports.
#include "perf/ncu/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fla::perf::ncu {
namespace {

using Words = std::vector<std::string>;

void append(Words* words, const Words& more) {
  words->insert(words->end(), more.begin(), more.end());
}

/// An addition to the plain command, and why.
struct Addition {
  Words words;
  std::string why;
};

/// What holds for every run of the profiler, the census included.
std::vector<Addition> shared_additions(const PassOptions& options) {
  std::vector<Addition> additions;
  additions.push_back({{"--config-file", "off"},
                       "a config.ncu-cfg in the working folder would change the options"});
  additions.push_back({{"--clock-control", options.clock_control},
                       options.clock_control == "none"
                           ? "without it the profiler locks the clocks of the GPU, for every user"
                           : "asked for; it changes the clocks of the GPU, for every user"});
  if (options.demangled_names) {
    additions.push_back(
        {{"--kernel-name-base", "demangled"}, "the expression looks at template arguments"});
  }
  if (options.marked_only) {
    additions.push_back({{"--profile-from-start", "off"},
                         "asked for: only what the program marks with cudaProfilerStart"});
  }
  return additions;
}

std::vector<Addition> pass_additions(const PassOptions& options) {
  std::vector<Addition> additions = shared_additions(options);
  if (options.skip > 0) {
    additions.push_back({{"-s", fmt::to_string(options.skip)},
                         "the census chose this launch instead of the first"});
  }
  additions.push_back({{"--kill", "yes"}, "the program need not run on once captured"});
  if (options.import_source) {
    additions.push_back({{"--import-source", "yes"}, "hot instructions get their source lines"});
  }
  return additions;
}

Words pass_sections(Pass pass, const PassOptions& options) {
  if (pass == Pass::kSource) {
    return {"--set", "source", "--section", "SourceCounters"};
  }
  Words words = {"--set", "full"};
  if (options.has_pm_sampling || options.letter) {
    append(&words, {"--section", "PmSampling"});
  }
  if (options.has_pm_warp_states || options.letter) {
    append(&words, {"--section", "PmSampling_WarpStates"});
  }
  return words;
}

}  // namespace

std::string pass_name(Pass pass) {
  return pass == Pass::kFull ? "full" : "source";
}

Words pass_argv(Pass pass, const PassOptions& options, const std::string& output) {
  Words words = {options.ncu};
  append(&words, pass_sections(pass, options));
  append(&words,
         {"-k", "regex:" + options.kernel, "-c", fmt::to_string(options.count), "-o", output});
  if (!options.letter) {
    for (const Addition& addition : pass_additions(options)) {
      append(&words, addition.words);
    }
  }
  append(&words, options.workload);
  return words;
}

std::vector<Deviation> pass_deviations(const PassOptions& options) {
  std::vector<Deviation> deviations;
  if (options.letter) {
    return deviations;
  }
  for (const Addition& addition : pass_additions(options)) {
    deviations.push_back({fmt::format("added {}", fmt::join(addition.words, " ")), addition.why});
  }
  deviations.push_back({"reports are named with .ncu-rep",
                        "without an extension newer profilers write another format"});
  const char* unknown = "this profiler does not list the section";
  if (!options.has_pm_sampling) {
    deviations.push_back({"left out --section PmSampling", unknown});
  }
  if (!options.has_pm_warp_states) {
    deviations.push_back({"left out --section PmSampling_WarpStates", unknown});
  }
  return deviations;
}

Words census_argv(const PassOptions& options, const std::string& log_file) {
  Words words = {options.ncu, "--metrics",
                 "gpu__time_duration.sum,launch__registers_per_thread,"
                 "launch__shared_mem_per_block"};
  if (!options.kernel.empty()) {
    append(&words, {"-k", "regex:" + options.kernel});
  }
  append(&words, {"-c", "2000", "--csv", "--page", "raw", "--log-file", log_file});
  for (const Addition& addition : shared_additions(options)) {
    append(&words, addition.words);
  }
  append(&words, options.workload);
  return words;
}

Words export_argv(const std::string& ncu, const std::string& report, Page page,
                  const Words& metrics) {
  Words words = {ncu, "--import", report, "--csv", "--page"};
  switch (page) {
    case Page::kRaw:
      append(&words, {"raw", "--print-units", "base", "--print-fp"});
      break;
    case Page::kInstances:
      append(&words, {"raw", "--print-units", "base", "--print-metric-instances", "details",
                      "--metrics", fmt::format("{}", fmt::join(metrics, ","))});
      break;
    case Page::kDetails:
      append(&words, {"details"});
      break;
    case Page::kSource:
      append(&words, {"source", "--print-source", "sass"});
      break;
    case Page::kLines:
      append(&words, {"source", "--print-source", "cuda,sass"});
      break;
  }
  return words;
}

}  // namespace fla::perf::ncu
