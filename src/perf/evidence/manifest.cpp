// SPDX-License-Identifier: MIT
// Gathers a run's documents into one.
#include "perf/evidence/manifest.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "perf/adapters/json_input.h"
#include "perf/evidence/comparison.h"
#include "perf/evidence/merge_request.h"
#include "perf/evidence/outcome.h"
#include "perf/evidence/profile_step.h"
#include "perf/evidence/session.h"
#include "perf/evidence/sides.h"
#include "perf/hardware/hardware.h"
#include "perf/hardware/hardware_json.h"
#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/json_value.h"
#include "perf/write_file.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

Json tree_json(const host::Tree& tree) {
  return {{"ref", tree.ref},
          {"commit", tree.commit},
          {"tree", tree.tree},
          {"dirty", tree.dirty},
          {"diffstat", tree.diffstat}};
}

Json scope_json(const Plan& plan) {
  const KernelChanges kernels = compare_kernels(plan);
  const auto code = plan.device_code.find("head");
  return {{"globs", plan.kernel_globs},
          {"kernel_files", plan.kernel_files},
          {"kernels",
           {{"known", kernels.known},
            {"changed", kernels.changed},
            {"added", kernels.added},
            {"removed", kernels.removed},
            {"identical", kernels.identical},
            {"note", code == plan.device_code.end() ? Json(nullptr) : Json(code->second.note)}}}};
}

Json machine_json(const Journal& journal) {
  const nlohmann::json* step = journal.find("hardware");
  if (step == nullptr) {
    return nullptr;
  }
  const Result<Hardware> card = hardware_from_json(step->at("card"));
  if (!card.ok()) {
    return nullptr;
  }
  const Hardware& hardware = card.value();
  return {{"class", card_class_name(hardware.card_class)},
          {"rule", hardware.rule},
          {"reason", hardware.reason},
          {"flags", hardware.flags},
          {"name", hardware.name},
          {"compute_capability", hardware.compute_capability},
          {"uuid", find_text(*step, "uuid").value_or("")},
          {"boot_id", hardware.boot_id},
          {"driver", hardware.driver},
          {"hardware_id", hardware.id()},
          {"other_processes", hardware.other_processes}};
}

/// The digests of the variables that the blocks of a side had; one when all agree.
Json environments(const Journal& journal, const std::string& bench, std::string_view side) {
  std::set<std::string> digests;
  for (const auto& [step, record] : journal.steps()) {
    if (step.starts_with("block/" + bench + '/') && find_text(record, "side") == side) {
      digests.insert(find_text(record, "env_digest").value_or("unknown"));
    }
  }
  return digests;
}

Json benches_json(const Plan& plan, const Journal& journal) {
  Json list = Json::array();
  for (const Bench& bench : plan.benches) {
    const bool random = !plan.native && !plan.seed_shim && starts_python(bench.argv);
    list.push_back({{"label", bench.label},
                    {"coverage", bench.coverage},
                    {"argv", bench.argv},
                    {"parser", bench.parser},
                    {"random", random},
                    {"rounds", finished_rounds(journal, bench.label, false)},
                    {"env",
                     {{"base", environments(journal, bench.label, "base")},
                      {"head", environments(journal, bench.label, "head")}}}});
  }
  return list;
}

Json side_json(const SideOutcome& side) {
  const std::optional<double> rate =
      side.median_s && *side.median_s > 0 ? std::optional(1 / *side.median_s) : std::nullopt;
  return {{"status", side.status},
          {"reason", or_null(side.reason)},
          {"median_s", or_null(side.median_s)},
          {"blocks_s", side.blocks_s},
          {"tokens_per_s", or_null(side.tokens_per_s)},
          {"iters_per_s", or_null(rate)},
          {"peak_bytes", or_null(side.peak_bytes)},
          {"rel_error", or_null(side.rel_error)},
          {"workload", or_null(side.workload_digest)}};
}

/// Speed-ups for an interval of log time differences: the ends swap.
Json speedup_interval(const std::optional<Interval>& interval) {
  return interval ? Json::array({std::exp(-interval->high), std::exp(-interval->low)})
                  : Json(nullptr);
}

Json row_json(const RowOutcome& row) {
  const std::optional<Effect>& effect = row.effect;
  Json json = {{"key", row.key},
               {"bench", row.bench},
               {"op", row.op},
               {"mode", row.mode},
               {"backend", row.backend},
               {"dtype", row.dtype},
               {"shape", row.shape},
               {"coverage", row.coverage},
               {"base", side_json(row.base)},
               {"head", side_json(row.head)},
               {"rounds", row.rounds},
               {"speedup", or_null(row.speedup())}};
  json["ci95"] = effect ? speedup_interval(effect->ci95) : Json(nullptr);
  json["noise_floor"] = effect ? Json(effect->noise_floor) : Json(nullptr);
  json["fit"] = effect ? Json(effect->fit) : Json(nullptr);
  json["mde"] = effect ? Json(effect->mde) : Json(nullptr);
  json["p"] = effect ? Json(effect->p) : Json(nullptr);
  json["d"] = effect ? Json(effect->d) : Json::array();
  json["z"] = effect ? Json(effect->z) : Json::array();
  json["verdict"] = verdict_name(row.verdict);
  json["state"] = regression_state_name(row.state);
  json["memory_moved"] = or_null(row.memory_moved());
  json["flags"] = row.flags;
  return json;
}

/// The mean effect of rows that share a group, its interval from the rounds' means.
Json group_json(const std::string& name, const std::vector<const RowOutcome*>& rows,
                int64_t excluded) {
  size_t rounds = rows.empty() ? 0 : SIZE_MAX;
  for (const RowOutcome* row : rows) {
    rounds = std::min(rounds, row->effect->d.size());
  }
  std::vector<double> means(rounds, 0);
  for (const RowOutcome* row : rows) {
    for (size_t i = 0; i < rounds; ++i) {
      means[i] += row->effect->d[i] / static_cast<double>(rows.size());
    }
  }
  Json json = {{"name", name}, {"rows", rows.size()}, {"excluded", excluded}};
  json["geomean"] = means.empty() ? Json(nullptr) : Json(std::exp(-hodges_lehmann(means)));
  json["ci95"] =
      means.empty() ? Json(nullptr) : speedup_interval(hodges_lehmann_interval(means, 0.95));
  return json;
}

Json groups_json(const std::vector<RowOutcome>& rows) {
  std::map<std::string, std::vector<const RowOutcome*>> members;
  std::map<std::string, int64_t> excluded;
  for (const RowOutcome& row : rows) {
    for (const std::string& name :
         {std::string("all"), fmt::format("{} {} {}", row.mode, row.coverage, row.backend)}) {
      members[name];
      if (row.effect && row.base.status == "ok" && row.head.status == "ok") {
        members[name].push_back(&row);
      } else {
        ++excluded[name];
      }
    }
  }
  Json list = Json::array();
  for (const auto& [name, group] : members) {
    list.push_back(group_json(name, group, excluded[name]));
  }
  return list;
}

/// Backends whose files changed and that no row ran on.
Json backends_not_run(const Plan& plan, const std::vector<RowOutcome>& rows) {
  Json list = Json::array();
  for (const std::string backend : {"cuda", "cpu"}) {
    const bool changed = std::any_of(
        plan.kernel_files.begin(), plan.kernel_files.end(),
        [&](const std::string& file) { return file.starts_with("src/" + backend + '/'); });
    const bool ran = std::any_of(rows.begin(), rows.end(),
                                 [&](const RowOutcome& row) { return row.backend == backend; });
    if (plan.native && changed && !ran) {
      list.push_back(backend);
    }
  }
  return list;
}

Json coverage_json(const Plan& plan, const std::vector<RowOutcome>& rows) {
  const auto count = [&](const char* coverage) {
    return std::count_if(rows.begin(), rows.end(), [&](const RowOutcome& row) {
      return row.coverage == coverage && row.head.status == "ok";
    });
  };
  return {{"dense", count("dense")},
          {"varlen", count("varlen")},
          {"varlen_unsupported", or_null(plan.varlen_unsupported)},
          {"backends_not_run", backends_not_run(plan, rows)}};
}

Json gate_json(const Plan& plan, const Journal& journal) {
  const nlohmann::json* step = journal.find("gate/head");
  const bool by_bench = std::any_of(plan.benches.begin(), plan.benches.end(),
                                    [](const Bench& bench) { return bench.parser == "fla"; });
  bool primed = by_bench;
  for (const Bench& bench : plan.benches) {
    const nlohmann::json* prime = journal.find("prime/" + bench.label + "/head");
    primed = primed && prime != nullptr && !prime->value("wrong", true);
  }
  const bool configured = !plan.gate.empty();
  return {{"configured", configured || by_bench},
          {"command", configured ? Json(host::shell_line(plan.gate))
                      : by_bench ? Json("the benchmark's own check against the fp64 reference")
                                 : Json(nullptr)},
          {"ok", configured ? Json(step != nullptr)
                 : by_bench ? Json(primed)
                            : Json(nullptr)}};
}

Json file_json(const std::string& run_dir, const std::string& path) {
  const Result<std::string> digest = host::sha256_file(run_dir + '/' + path);
  std::error_code ignored;
  return {{"path", path},
          {"sha256", digest.ok() ? Json(digest.value()) : Json(nullptr)},
          {"bytes", fs::file_size(run_dir + '/' + path, ignored)}};
}

/// A report that the journal names, or null when the file is not there.
Json report_json(const std::string& run_dir, const nlohmann::json& step, const char* key) {
  const std::string path = find_text(step, key).value_or("");
  const std::string name = path.empty() ? "" : "reports/" + fs::path(path).filename().string();
  return name.empty() || !fs::exists(run_dir + '/' + name) ? Json(nullptr)
                                                           : file_json(run_dir, name);
}

/// What the report command found in the profile: fla.profile/1, as far as it is there.
void add_metrics(const std::string& run_dir, const std::string& tag, Json* profile) {
  (*profile)["metrics"] = Json::object();
  (*profile)["hotspots"] = Json::array();
  (*profile)["diagnoses"] = Json::array();
  const Result<std::string> text =
      host::read_file(fmt::format("{}/analysis/metrics_{}.json", run_dir, tag));
  if (!text.ok()) {
    return;
  }
  const Json json = Json::parse(text.value(), nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"kernel", "launch", "metrics", "hotspots", "diagnoses"}) {
    if (json.is_object() && json.contains(key)) {
      (*profile)[key] = json[key];
    }
  }
}

Json profiles_json(const Plan& plan, const Journal& journal, const std::string& run_dir) {
  Json list = Json::array();
  for (const char* side : {"head", "base"}) {
    const nlohmann::json* step = journal.find(std::string("profile/") + side);
    if (step == nullptr) {
      continue;
    }
    Json profile = {{"side", side},
                    {"outcome", find_text(*step, "outcome").value_or("")},
                    {"cause", or_null(find_text(*step, "cause").value_or(""))},
                    {"message", find_text(*step, "message").value_or("")},
                    {"pattern", or_null(find_text(*step, "pattern").value_or(""))},
                    {"chosen_by", plan.kernel.empty() ? "changed device code" : "--kernel"},
                    {"full", report_json(run_dir, *step, "full")},
                    {"source", report_json(run_dir, *step, "source")}};
    add_metrics(run_dir, find_text(*step, "tag").value_or(""), &profile);
    list.push_back(std::move(profile));
  }
  return list;
}

Json ncu_json(const Plan& plan, const Journal& journal) {
  const nlohmann::json* head = journal.find("profile/head");
  const std::string outcome = head == nullptr ? "" : find_text(*head, "outcome").value_or("");
  const std::string message = head != nullptr ? find_text(*head, "message").value_or("")
                              : plan.profile == "none"
                                  ? "profiling was switched off by --profile none"
                                  : "not profiled yet";
  return {{"available", outcome == "done"},
          {"outcome", outcome.empty() ? (plan.profile == "none" ? "off" : "pending") : outcome},
          {"note", message},
          {"version", head == nullptr ? Json(nullptr)
                                      : or_null(find_text(*head, "ncu_version").value_or(""))}};
}

Json human_json(const Human& human) {
  return {{"summary", human.summary},
          {"conclusion", human.conclusion},
          {"conclusion_text", human.conclusion_text},
          {"risk", human.risk},
          {"impact", human.impact},
          {"explanations", human.explanations}};
}

Json files_json(const std::string& run_dir) {
  Json list = Json::array();
  for (const std::string& path : host::list_files(run_dir)) {
    const bool ours = path.starts_with("reports/") || path.starts_with("analysis/");
    if (ours) {
      list.push_back(file_json(run_dir, path));
    }
  }
  return list;
}

bool complete(const Plan& plan, const Journal& journal) {
  const bool measured =
      std::all_of(plan.benches.begin(), plan.benches.end(), [&](const Bench& bench) {
        return finished_rounds(journal, bench.label, false) >= plan.least_rounds;
      });
  return measured && (plan.profile == "none" || journal.find("profile/head") != nullptr);
}

}  // namespace

Json make_manifest(const Plan& plan, const Journal& journal, const Human& human,
                   const SkillNote& skill, const std::string& run_dir) {
  const std::vector<RowOutcome> rows = row_outcomes(plan, journal);
  Json row_list = Json::array();
  for (const RowOutcome& row : rows) {
    row_list.push_back(row_json(row));
  }
  Json identity = Json::object();
  Json runner = Json::object();
  for (const std::string_view side : kSides) {
    const std::string name(side);
    const nlohmann::json* step = journal.find("identity/" + name);
    identity[name] =
        step == nullptr ? Json(nullptr) : or_null(find_text(*step, "identity").value_or(""));
    const auto digest = plan.runner_digests.find(name);
    runner[name] = digest == plan.runner_digests.end() ? Json(nullptr) : Json(digest->second);
  }
  return {{"schema", "fla.evidence/1"},
          {"run_name", plan.run_name},
          {"created", plan.created},
          {"state", complete(plan, journal) ? "complete" : "partial"},
          {"repo", plan.repo_name},
          {"native", plan.native},
          {"new_op", plan.new_op},
          {"base", tree_json(plan.base)},
          {"head", tree_json(plan.head)},
          {"scope", scope_json(plan)},
          {"plan_sha256", host::sha256(to_json(plan))},
          {"machine", machine_json(journal)},
          {"benches", benches_json(plan, journal)},
          {"runner", std::move(runner)},
          {"identity", std::move(identity)},
          {"threshold", plan.threshold},
          {"rows", std::move(row_list)},
          {"groups", groups_json(rows)},
          {"verdict", verdict_name(run_verdict(rows))},
          {"coverage", coverage_json(plan, rows)},
          {"gate", gate_json(plan, journal)},
          {"profiles", profiles_json(plan, journal, run_dir)},
          {"ncu", ncu_json(plan, journal)},
          {"skill", {{"found", skill.found}, {"note", skill.text}}},
          {"human", human_json(human)},
          {"notes", plan.notes},
          {"files", files_json(run_dir)}};
}

Result<Human> load_human(const std::string& run_dir) {
  if (!fs::exists(human_path(run_dir))) {
    return Human{};
  }
  const Result<std::string> text = host::read_file(human_path(run_dir));
  return text.ok() ? parse_human(human_path(run_dir), text.value()) : text.status();
}

Status compose(const std::string& run_dir, const SkillNote& skill) {
  const Result<Plan> plan = load_plan(plan_path(run_dir));
  const Result<Journal> journal = Journal::open(journal_path(run_dir));
  const Result<Human> human = load_human(run_dir);
  for (const Status& status : {plan.status(), journal.status(), human.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  if (Status status = save_comparison(plan.value(), journal.value(), human.value(), run_dir);
      !status.ok()) {
    return status;
  }
  const Json manifest = make_manifest(plan.value(), journal.value(), human.value(), skill, run_dir);
  const std::string json = manifest.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  if (Status status = write_file(manifest_path(run_dir), json); !status.ok()) {
    return status;
  }
  return write_file(run_dir + "/MR.md", merge_request_text(nlohmann::json::parse(json)));
}

}  // namespace fla::perf::evidence
