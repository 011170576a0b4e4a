// SPDX-License-Identifier: MIT
// The sections of a report about the run: what was measured, where, how, and what it says.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perf/format.h"
#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/host/process.h"
#include "perf/json_value.h"
#include "perf/report/sections.h"

namespace fla::perf::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<std::string> texts(const Json& json, const std::string& where) {
  std::vector<std::string> result;
  for (const Json& one : list_at(json, where)) {
    result.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  }
  return result;
}

std::string or_dash(const std::string& value) {
  return value.empty() ? "-" : value;
}

std::string interval(const Json& row, const char* where) {
  const Json& ends = list_at(row, where);
  return ends.size() == 2 && ends[0].is_number() && ends[1].is_number()
             ? fmt::format(" [{:.3f}, {:.3f}]", ends[0].get<double>(), ends[1].get<double>())
             : "";
}

std::string speedup_text(const Json& row, const char* value, const char* ends) {
  const std::optional<double> speedup = number_at(row, value);
  return speedup ? fmt::format("{:.3f}{}", *speedup, interval(row, ends)) : "-";
}

std::string tree_text(const Json& tree) {
  return fmt::format("{}, commit {}, tree {}{}", or_dash(text_at(tree, "/ref")),
                     or_dash(text_at(tree, "/commit").substr(0, 12)),
                     or_dash(text_at(tree, "/tree").substr(0, 12)),
                     tree.value("dirty", false) ? ", dirty" : "");
}

std::string milliseconds_text(const std::optional<double>& seconds) {
  return seconds ? significant(milliseconds(seconds), 4) + " ms" : "-";
}

/// The document that says how the sides compare.
const Json& results(const RunData& data) {
  return data.evidence.is_object() ? data.evidence : data.comparison;
}

std::string row_memory(const Json& row) {
  const std::optional<double> ratio = number_at(row, "/memory_moved");
  return ratio ? fmt::format("{:+.1f} %", 100 * (*ratio - 1)) : "unmoved";
}

std::vector<std::string> row_cells(const Json& row, bool evidence) {
  const std::optional<double> base = number_at(row, evidence ? "/base/median_s" : "/base_s");
  const std::optional<double> head = number_at(row, evidence ? "/head/median_s" : "/head_s");
  const std::optional<double> rate =
      number_at(row, evidence ? "/head/tokens_per_s" : "/tokens_per_s");
  const std::optional<double> mde = number_at(row, "/mde");
  return {"`" + text_at(row, "/key") + "`",
          milliseconds_text(base),
          milliseconds_text(head),
          speedup_text(row, "/speedup", "/ci95"),
          with_suffix(rate),
          evidence ? row_memory(row) : "-",
          mde ? fmt::format("{:.2f} %", 100 * *mde) : "-",
          or_dash(text_at(row, "/verdict")),
          fmt::format("{}", fmt::join(texts(row, "/flags"), ", "))};
}

/// Rows that say nothing about speed: missing, failed, skipped on a side.
Items open_rows(const Json& document) {
  Items items;
  for (const Json& row : list_at(document, "/rows")) {
    for (const char* side : {"base", "head"}) {
      const std::string status = text_at(row, fmt::format("/{}/status", side));
      if (!status.empty() && status != "ok") {
        items.texts.push_back(fmt::format("`{}`, {}: {} {}", text_at(row, "/key"), side, status,
                                          text_at(row, fmt::format("/{}/reason", side))));
      }
    }
  }
  for (const char* side : {"base", "head"}) {
    for (const std::string& key : texts(document, fmt::format("/only_{}", side))) {
      items.texts.push_back(fmt::format("`{}`: only on the {} side", key, side));
    }
  }
  return items;
}

Listing commands_of(const ncu::Collection& collection) {
  Listing code;
  for (const std::vector<std::string>& command : collection.commands) {
    code.text += host::shell_line(command) + "\n";
  }
  return code;
}

void add_collection(const ncu::KernelProfile& profile, std::vector<Block>* blocks) {
  if (!profile.collection) {
    blocks->push_back(Paragraph{
        fmt::format("`{}`: the reports were brought here; how they were collected is not known.",
                    profile.tag)});
    return;
  }
  const ncu::Collection& c = *profile.collection;
  blocks->push_back(Paragraph{
      fmt::format("`{}`: collected {}, Nsight Compute {}, clock control {}, set `source` {}.",
                  profile.tag, c.created, or_dash(c.ncu_version), c.clock_control,
                  !c.has_source_set   ? "not listed"
                  : *c.has_source_set ? "present"
                                      : "absent: the section SourceCounters was collected")});
  blocks->push_back(commands_of(c));
  Items items;
  for (const ncu::Deviation& one : c.deviations) {
    items.texts.push_back(fmt::format("`{}`: {}", one.what, one.why));
  }
  for (const std::string& warning : c.warnings) {
    items.texts.push_back("the profiler warned: " + warning);
  }
  if (c.clock_control == "base" || c.clock_control == "boost" || c.letter) {
    items.texts.push_back("machine-clocks-changed: the profiler set the clocks while it ran");
  }
  if (!items.texts.empty()) {
    blocks->push_back(Paragraph{"Beside the plain commands:"});
    blocks->push_back(std::move(items));
  }
}

std::string most_important(const RunData& data) {
  for (const ProfilePair& pair : pair_profiles(data)) {
    for (const ncu::Finding& finding : pair.head->findings) {
      if (finding.overruled_by.empty()) {
        return fmt::format("`{}`: {} ({}).", pair.head->tag, finding.title,
                           numbers_text(finding.numbers));
      }
    }
  }
  return data.profiles.empty() ? "No kernel was profiled." : "No rule of the diagnosis fired.";
}

}  // namespace

Section header_section(const RunData& data) {
  Section section;
  const Json& e = data.evidence;
  Table table;
  table.rows.push_back({"what", "value"});
  table.rows.push_back({"run", data.run_name});
  table.rows.push_back({"state", e.is_object() ? or_dash(text_at(e, "/state")) : "profile only"});
  if (e.is_object()) {
    table.rows.push_back({"date", or_dash(text_at(e, "/created"))});
    table.rows.push_back({"repository", or_dash(text_at(e, "/repo"))});
    table.rows.push_back({"base", tree_text(e.value("base", Json::object()))});
    table.rows.push_back({"head", tree_text(e.value("head", Json::object()))});
    table.rows.push_back(
        {"class", fmt::format("{} (rule {})", or_dash(text_at(e, "/machine/class")),
                              or_dash(text_at(e, "/machine/rule")))});
    const std::string uuid = text_at(e, "/machine/uuid");
    const std::optional<double> capability = number_at(e, "/machine/compute_capability");
    table.rows.push_back(
        {"device",
         fmt::format("{}, sm_{}, UUID ...{}, driver {}", or_dash(text_at(e, "/machine/name")),
                     capability ? fmt::format("{:.0f}", *capability) : "-",
                     uuid.substr(uuid.size() - std::min<size_t>(uuid.size(), 8)),
                     or_dash(text_at(e, "/machine/driver")))});
  } else if (!data.profiles.empty()) {
    const ncu::KernelProfile& first = data.profiles.front();
    table.rows.push_back({"device", fmt::format("{}, compute capability {}", or_dash(first.device),
                                                or_dash(first.compute_capability))});
  }
  std::string versions = "fla " + or_dash(data.version);
  if (!data.profiles.empty() && data.profiles.front().collection) {
    versions += ", Nsight Compute " + or_dash(data.profiles.front().collection->ncu_version);
  }
  table.rows.push_back({"tools", versions});
  section.blocks.push_back(std::move(table));
  return section;
}

Section reading_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Reading"});
  std::string reading;
  if (const Json& r = results(data); r.is_object()) {
    reading = fmt::format("Verdict: {}.", or_dash(text_at(r, "/verdict")));
    for (const Json& group : list_at(r, "/groups")) {
      if (text_at(group, "/name") == "all") {
        const char* key = data.evidence.is_object() ? "/geomean" : "/speedup";
        reading +=
            fmt::format(" Geometric mean of the speedups: {}, {:.0f} rows.",
                        speedup_text(group, key, "/ci95"), number_at(group, "/rows").value_or(0));
      }
    }
    reading += " ";
  }
  section.blocks.push_back(Paragraph{reading + most_important(data)});
  section.blocks.push_back(Human{"reading", "what this means, in a sentence"});
  return section;
}

Section setup_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Set-up"});
  Listing benches;
  for (const Json& bench : list_at(data.evidence, "/benches")) {
    benches.text +=
        fmt::format("{} ({}): {}\n", text_at(bench, "/label"), text_at(bench, "/coverage"),
                    host::shell_line(texts(bench, "/argv")));
  }
  if (!benches.text.empty()) {
    section.blocks.push_back(Paragraph{"Benchmarks, the same on both sides:"});
    section.blocks.push_back(std::move(benches));
  }
  for (const ncu::KernelProfile& profile : data.profiles) {
    add_collection(profile, &section.blocks);
  }
  Items items;
  items.texts.push_back("helper skill ncu-report-skill: " + data.skill.note());
  if (!data.skill.target.empty()) {
    items.texts.push_back("the skill is written for " + data.skill.target);
  }
  for (const auto* more : {&data.skill.differences, &data.skill_runs, &data.notes}) {
    items.texts.insert(items.texts.end(), more->begin(), more->end());
  }
  if (const std::string note = text_at(data.evidence, "/ncu/note"); !note.empty()) {
    items.texts.push_back("Nsight Compute: " + note);
  }
  section.blocks.push_back(std::move(items));
  return section;
}

Section before_after_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Before and after"});
  const Json& r = results(data);
  const bool evidence = data.evidence.is_object();
  if (list_at(r, "/rows").empty()) {
    section.blocks.push_back(Paragraph{"This run holds no benchmark results."});
    return section;
  }
  Table table;
  table.rows.push_back({"row", "base", "head", "speedup [95 %]", "tokens/s head", "memory",
                        "smallest visible change", "verdict", "flags"});
  for (const Json& row : list_at(r, "/rows")) {
    table.rows.push_back(row_cells(row, evidence));
  }
  section.blocks.push_back(std::move(table));
  add_figure(data, "before_after", "Times of blocks on both sides",
             distributions_script(distributions(data)), &section.blocks, &section.notes);
  Table groups;
  groups.rows.push_back({"group", "geometric mean [95 %]", "rows", "excluded"});
  for (const Json& group : list_at(r, "/groups")) {
    groups.rows.push_back({text_at(group, "/name"),
                           speedup_text(group, evidence ? "/geomean" : "/speedup", "/ci95"),
                           fmt::format("{:.0f}", number_at(group, "/rows").value_or(0)),
                           fmt::format("{:.0f}", number_at(group, "/excluded").value_or(0))});
  }
  section.blocks.push_back(std::move(groups));
  if (Items open = open_rows(r); !open.texts.empty()) {
    section.blocks.push_back(Paragraph{"Rows that are missing, failed or new:"});
    section.blocks.push_back(std::move(open));
  }
  return section;
}

Section machine_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "State of the machine"});
  double floor = 0;
  size_t unfit = 0;
  const Json& rows = list_at(results(data), "/rows");
  for (const Json& row : rows) {
    floor = std::max(floor, number_at(row, "/noise_floor").value_or(0));
    unfit += row.contains("fit") && row["fit"] == false ? 1 : 0;
  }
  Items items;
  if (!rows.empty()) {
    items.texts.push_back(fmt::format("largest noise floor of a row: {:.2f} %", 100 * floor));
    items.texts.push_back(unfit == 0
                              ? "no row found the machine too noisy"
                              : fmt::format("rows that found the machine too noisy: {}", unfit));
  }
  for (const char* place : {"/machine/flags", "/machine/other_processes", "/notes"}) {
    for (const std::string& one : texts(data.evidence, place)) {
      items.texts.push_back(one);
    }
  }
  if (items.texts.empty()) {
    items.texts.emplace_back("not recorded: this run only profiles");
  }
  section.blocks.push_back(std::move(items));
  return section;
}

Section traps_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Traps"});
  Items items;
  for (const Json& row : list_at(results(data), "/rows")) {
    for (const std::string& flag : texts(row, "/flags")) {
      items.texts.push_back(fmt::format("`{}`: {}", text_at(row, "/key"), flag));
    }
  }
  if (items.texts.empty()) {
    items.texts.emplace_back("no flag was raised");
  }
  section.blocks.push_back(std::move(items));
  section.blocks.push_back(Human{"traps", "answers to the flags above, or none"});
  return section;
}

Section conclusion_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Conclusion"});
  Items items;
  const auto add = [&](const char* name, const char* place) {
    if (const std::string said = text_at(data.evidence, place); !said.empty()) {
      items.texts.push_back(fmt::format("{}: {}", name, said));
    }
  };
  add("conclusion", "/human/conclusion");
  add("why", "/human/conclusion_text");
  add("risk", "/human/risk");
  add("affected users", "/human/impact");
  const Json explanations = data.evidence.is_object() && data.evidence.contains("human") &&
                                    data.evidence["human"].contains("explanations")
                                ? data.evidence["human"]["explanations"]
                                : Json::object();
  for (const auto& [row, why] : explanations.items()) {
    items.texts.push_back(
        fmt::format("`{}`: {}", row, why.is_string() ? why.get<std::string>() : why.dump()));
  }
  if (!items.texts.empty()) {
    section.blocks.push_back(std::move(items));
  }
  section.blocks.push_back(
      Human{"conclusion", "cause, risk, regressions explained, what was not measured"});
  return section;
}

Section files_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Files"});
  Table table;
  table.rows.push_back({"file", "bytes", "SHA-256"});
  for (const std::string& file : host::list_files(data.run_dir)) {
    const bool listed = file.starts_with("reports/") || file == "evidence.json" ||
                        (file.starts_with("analysis/") && !file.starts_with("analysis/logs/") &&
                         !file.starts_with("analysis/plots/"));
    if (!listed) {
      continue;
    }
    std::error_code error;
    const std::string path = fmt::format("{}/{}", data.run_dir, file);
    const auto bytes = fs::file_size(path, error);
    const Result<std::string> digest = host::sha256_file(path);
    table.rows.push_back({"`" + file + "`", fmt::to_string(bytes),
                          digest.ok() ? digest.value().substr(0, 16) + "..." : "-"});
  }
  section.blocks.push_back(std::move(table));
  Listing again;
  for (const ncu::KernelProfile& profile : data.profiles) {
    if (profile.collection) {
      again.text += host::shell_line({"fla", "profile", "--kernel", profile.collection->kernel,
                                      "--tag", profile.tag, "--"}) +
                    " " + host::shell_line(profile.collection->workload) + "\n";
    }
  }
  again.text += host::shell_line({"fla", "report", data.run_dir}) + "\n";
  section.blocks.push_back(Paragraph{"To do it again:"});
  section.blocks.push_back(std::move(again));
  return section;
}

}  // namespace fla::perf::report
