// SPDX-License-Identifier: MIT
// `fla ops`: what the registry holds, and which CUDA kernels serve it.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/build_info.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "ops/registry.h"
#include "ops/targets.h"
#include "perf/format.h"

namespace fla::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<ops::Flag, const char*> kFlagNames[] = {
    {ops::Flag::kScale, "scale"},
    {ops::Flag::kL2Norm, "l2norm_qk"},
    {ops::Flag::kBetaSigmoid, "beta_sigmoid"},
    {ops::Flag::kGateSoftplus, "gate_softplus"},
    {ops::Flag::kGateLowerBound, "gate_lower_bound"},
    {ops::Flag::kSafeGate, "safe_gate"},
    {ops::Flag::kStateVFirst, "state_v_first"},
    {ops::Flag::kGva, "gva"},
    {ops::Flag::kNormalize, "normalize"},
};

std::vector<std::string> flag_names(const ops::OpRow& row) {
  std::vector<std::string> names;
  for (const auto& [flag, name] : kFlagNames) {
    if ((row.flags & static_cast<uint32_t>(flag)) != 0) {
      names.emplace_back(name);
    }
  }
  return names;
}

Json slots_json(const ops::OpRow& row) {
  Json slots = Json::array();
  for (const ops::SlotSpec& spec : row.slots) {
    slots.push_back({{"name", spec.name},
                     {"shape", ops::slot_dims_text(spec)},
                     {"optional", spec.optional},
                     {"output", ops::is_output(spec.slot)}});
  }
  return slots;
}

std::string list_json() {
  Json rows = Json::array();
  for (const ops::OpRow& row : ops::registry()) {
    rows.push_back({{"name", row.name},
                    {"summary", row.summary},
                    {"sheet", row.sheet},
                    {"source", row.source},
                    {"chunk_names", row.chunk_names},
                    {"recurrent_names", row.recurrent_names},
                    {"modes", {"fwd", "bwd", "fwdbwd", "decode"}},
                    {"dtypes", {"bf16", "fp16", "fp32"}},
                    {"flags", flag_names(row)},
                    {"varlen", row.find(Slot::kCuSeqlens) != nullptr},
                    {"slots", slots_json(row)}});
  }
  return Json{{"schema", "fla.ops/1"}, {"ops", std::move(rows)}}.dump(2) + '\n';
}

std::string list_text() {
  std::vector<std::vector<std::string>> cells = {{"op", "benchmark names", "flags", "recurrence"}};
  for (const ops::OpRow& row : ops::registry()) {
    std::vector<std::string_view> names = row.chunk_names;
    names.insert(names.end(), row.recurrent_names.begin(), row.recurrent_names.end());
    cells.push_back({std::string(row.name), fmt::format("{}", fmt::join(names, " ")),
                     fmt::format("{}", fmt::join(flag_names(row), " ")), std::string(row.summary)});
  }
  return perf::align(cells, {true, true, true, true});
}

std::vector<std::string_view> dtype_names(const cuda::InstanceRow& row) {
  std::vector<std::string_view> names;
  for (DType dtype : row.dtypes) {
    names.push_back(dtype_name(dtype));
  }
  return names;
}

std::string instances_json() {
  Json rows = Json::array();
  for (const cuda::InstanceRow& row : fla::ops::cuda_instances()) {
    rows.push_back({{"name", row.name},
                    {"family", row.family},
                    {"pass", row.pass},
                    {"update", row.update},
                    {"max_keys", row.max_keys},
                    {"max_values", row.max_values},
                    {"dtypes", dtype_names(row)},
                    {"built", row.built ? "yes" : "no"}});
  }
  return Json{{"schema", "fla.instances/1"},
              {"cuda_architectures", kCudaArchitectures},
              {"instances", std::move(rows)}}
             .dump(2) +
         '\n';
}

std::string instances_text() {
  std::vector<std::vector<std::string>> cells = {
      {"instance", "family", "pass", "update", "K up to", "V up to", "dtypes", "built"}};
  for (const cuda::InstanceRow& row : fla::ops::cuda_instances()) {
    cells.push_back({std::string(row.name), std::string(row.family), std::string(row.pass),
                     std::string(row.update), fmt::format("{}", row.max_keys),
                     fmt::format("{}", row.max_values),
                     fmt::format("{}", fmt::join(dtype_names(row), " ")),
                     row.built ? "yes" : "no"});
  }
  return perf::align(cells, {true, true, true, true, false, false, true, true});
}

}  // namespace

int ops(const Arguments& arguments) {
  bool list = false;
  bool limits = false;
  bool instances = false;
  std::string json;
  CLI::App app("The operators of the registry (fla help ops)", "fla ops");
  app.add_flag("--list", list, "Names, flags and recurrences (the default)");
  app.add_flag("--limits", limits, "docs/limits.md: slots, shapes, dtypes and ranges");
  app.add_flag("--instances", instances,
               "The CUDA kernels, what each takes, and whether it is built");
  app.add_option("--json", json,
                 "With --list or --instances: the machine form to a file, or to stdout with -");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  if (limits && (list || instances || !json.empty())) {
    return fail(kUsage, "--limits goes with none of --list, --instances and --json");
  }
  if (list && instances) {
    return fail(kUsage, "--list and --instances exclude each other");
  }
  const bool shown = json == "-" || print(limits      ? fla::ops::limits_markdown()
                                          : instances ? instances_text()
                                                      : list_text());
  const int written = json.empty() ? static_cast<int>(kDone)
                                   : write_output(json, instances ? instances_json() : list_json());
  return shown ? written : fail(kWorkload, "cannot write to stdout");
}

}  // namespace fla::cli
