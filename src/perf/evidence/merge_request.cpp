// SPDX-License-Identifier: MIT
// From evidence.json to Markdown.
#include "perf/evidence/merge_request.h"

#include <fmt/format.h>

#include "perf/adapters/json_input.h"
#include "perf/format.h"
#include "perf/host/digest.h"
#include "perf/host/process.h"
#include "perf/json_value.h"

namespace fla::perf::evidence {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBlockStart = "<!-- fla-evidence ";
constexpr std::string_view kBlockEnd = " -->";

std::string or_to_fill(const std::string& written, std::string_view what) {
  return written.empty() ? fmt::format("{}{}]", kToFill, what) : written;
}

std::string speedup_text(const Json& row) {
  const std::optional<double> value = number_at(row, "/speedup");
  if (!value) {
    return "-";
  }
  const std::optional<double> low = number_at(row, "/ci95/0");
  const std::optional<double> high = number_at(row, "/ci95/1");
  return low && high ? fmt::format("{:.4f} [{:.4f}, {:.4f}]", *value, *low, *high)
                     : fmt::format("{:.4f}", *value);
}

std::string percent_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100 * *share) : "-";
}

std::string throughput(const Json& row) {
  const std::optional<double> tokens = number_at(row, "/head/tokens_per_s");
  const std::optional<double> iters = number_at(row, "/head/iters_per_s");
  return tokens  ? with_suffix(tokens) + " tokens/s"
         : iters ? significant(iters, 4) + " iters/s"
                 : "-";
}

std::string memory_text(const Json& row) {
  if (!number_at(row, "/memory_moved")) {
    return "unchanged";
  }
  const double before = number_at(row, "/base/peak_bytes").value_or(0) * 0x1p-20;
  const double after = number_at(row, "/head/peak_bytes").value_or(0) * 0x1p-20;
  return fmt::format("{:.0f} to {:.0f} MiB", before, after);
}

std::string in_words(const Json& list) {
  std::string joined;
  for (const Json& item : list.is_array() ? list : Json::array()) {
    if (item.is_string()) {
      joined += (joined.empty() ? "" : ", ") + item.get<std::string>();
    }
  }
  return joined;
}

std::string row_name(const Json& row) {
  std::string key = text_at(row, "/key");
  for (char& c : key) {
    c = c == '|' ? ' ' : c;  // which would part the cells of a Markdown table
  }
  return key;
}

std::string verdict_cell(const Json& row) {
  const std::string word = text_at(row, "/verdict");
  const std::string state = text_at(row, "/state");
  return word == "regression" ? word + ", " + state
         : word == "neutral"
             ? fmt::format("neutral (would have seen {})", percent_text(number_at(row, "/mde")))
             : word;
}

std::string rows_table(const Json& manifest) {
  std::vector<std::vector<std::string>> cells = {{"row", "base ms", "head ms", "speed-up [95 %]",
                                                  "head throughput", "peak memory", "noise floor",
                                                  "verdict", "flags"}};
  for (const Json& row : value_at(manifest, "/rows")) {
    const auto side = [&](const char* seconds, const char* status) {
      return number_at(row, seconds) ? significant(milliseconds(number_at(row, seconds)), 4)
                                     : text_at(row, status);
    };
    cells.push_back({row_name(row), side("/base/median_s", "/base/status"),
                     side("/head/median_s", "/head/status"), speedup_text(row), throughput(row),
                     memory_text(row), percent_text(number_at(row, "/noise_floor")),
                     verdict_cell(row), in_words(value_at(row, "/flags"))});
  }
  return markdown(cells);
}

std::string groups_text(const Json& manifest) {
  std::string result;
  for (const Json& group : value_at(manifest, "/groups")) {
    const std::optional<double> mean = number_at(group, "/geomean");
    const std::optional<double> low = number_at(group, "/ci95/0");
    const std::optional<double> high = number_at(group, "/ci95/1");
    result += fmt::format("Geometric mean: {}: {}{} over {} rows, {} left out\n",
                          text_at(group, "/name"), mean ? fmt::format("{:.4f}", *mean) : "none",
                          low && high ? fmt::format(" [{:.4f}, {:.4f}]", *low, *high) : "",
                          value_at(group, "/rows").dump(), value_at(group, "/excluded").dump());
  }
  return result;
}

std::string hardware_line(const Json& manifest) {
  const std::string uuid = text_at(manifest, "/machine/uuid");
  return fmt::format("{} ({}), sm_{}, {}, driver {}", text_at(manifest, "/machine/name"),
                     text_at(manifest, "/machine/class"),
                     value_at(manifest, "/machine/compute_capability").dump(),
                     uuid.size() > 8 ? "UUID ..." + uuid.substr(uuid.size() - 8) : uuid,
                     text_at(manifest, "/machine/driver"));
}

std::string coverage_line(const Json& manifest) {
  const std::string reason = text_at(manifest, "/coverage/varlen_unsupported");
  return fmt::format(
      "dense {}, varlen {}", value_at(manifest, "/coverage/dense").dump(),
      reason.empty() ? value_at(manifest, "/coverage/varlen").dump() : "not supported: " + reason);
}

std::string commands_text(const Json& manifest) {
  std::string result;
  for (const Json& bench : value_at(manifest, "/benches")) {
    std::vector<std::string> argv;
    for (const Json& word : value_at(bench, "/argv")) {
      argv.push_back(word.is_string() ? word.get<std::string>() : "");
    }
    result += fmt::format("{}@{} ({} rounds A B B A): {}\n", text_at(bench, "/label"),
                          text_at(bench, "/coverage"), value_at(bench, "/rounds").dump(),
                          host::shell_line(argv));
  }
  return result;
}

std::string scope_text(const Json& manifest) {
  const std::string files = in_words(value_at(manifest, "/scope/kernel_files"));
  const std::string changed = in_words(value_at(manifest, "/scope/kernels/changed"));
  const std::string added = in_words(value_at(manifest, "/scope/kernels/added"));
  std::string result = files.empty() ? "no kernel file changed" : files;
  if (value_at(manifest, "/scope/kernels/known") == true) {
    result += fmt::format("; device code changed: {}{}{}", changed.empty() ? "none" : changed,
                          added.empty() ? "" : ", added: ", added);
  }
  return result;
}

std::string metric(const Json& profile, const char* key) {
  const std::optional<double> value = number_at(profile, fmt::format("/metrics/{}/value", key));
  return value ? fmt::format("{:.1f} %", *value) : "not in the report";
}

std::string hotspots_text(const Json& profile) {
  std::string result = "Hot instructions (share of samples):\n";
  int count = 0;
  const Json& hot = value_at(profile, "/hotspots");
  const Json& list = hot.is_object() ? value_at(hot, "/instructions") : hot;
  for (const Json& item : list.is_array() ? list : Json::array()) {
    if (++count > 10) {
      break;
    }
    const std::string sass =
        text_at(item, "/sass").empty() ? text_at(item, "/text") : text_at(item, "/sass");
    const std::string file = text_at(item, "/file");
    const std::string reason = text_at(item, "/top_reason");
    result += fmt::format(
        "- `{}` {}{}{}\n", sass, percent_text(number_at(item, "/share")),
        reason.empty() ? "" : ", " + reason,
        file.empty() ? "" : fmt::format(", {}:{}", file, value_at(item, "/line").dump()));
  }
  return count > 0 ? result : result + "- none: the report holds no samples\n";
}

std::string kernel_name(const Json& profile) {
  const Json& kernel = value_at(profile, "/kernel");
  return kernel.is_string()                  ? kernel.get<std::string>()
         : !text_at(kernel, "/name").empty() ? text_at(kernel, "/name")
                                             : text_at(profile, "/pattern");
}

std::string profile_text(const Json& profile) {
  const Json& diagnoses = value_at(profile, "/diagnoses");
  const Json& first = diagnoses.is_array() && !diagnoses.empty() ? diagnoses[0] : Json();
  const std::string limiter = in_words(value_at(profile, "/launch/occupancy_limiter"));
  const std::string finding =
      text_at(first, "/text").empty() ? text_at(first, "/finding") : text_at(first, "/text");
  return fmt::format(
      "Kernel ({}): `{}`\n"
      "Memory throughput: {}, DRAM {}\n"
      "SOL: compute {}, memory {}\n"
      "Occupancy: achieved {}, theoretical {}, limited by {}\n"
      "{}Diagnosis: {} {}\n",
      text_at(profile, "/side"), kernel_name(profile), metric(profile, "memory_sol"),
      metric(profile, "dram_pct"), metric(profile, "compute_sol"), metric(profile, "memory_sol"),
      metric(profile, "occ_achieved"), metric(profile, "occ_theory"),
      limiter.empty() ? "nothing that the report names" : limiter, hotspots_text(profile),
      text_at(first, "/id").empty() ? "no rule fired" : text_at(first, "/id"), finding);
}

std::string ncu_text(const Json& manifest) {
  std::string result;
  for (const Json& profile : value_at(manifest, "/profiles")) {
    if (text_at(profile, "/outcome") == "done") {
      result += profile_text(profile) + '\n';
    }
  }
  if (result.empty()) {
    result = fmt::format("note: no Nsight Compute profile ({}): {}\n",
                         text_at(manifest, "/ncu/outcome"), text_at(manifest, "/ncu/note"));
  }
  return result;
}

std::string regressed_text(const Json& manifest) {
  std::string result;
  for (const Json& row : value_at(manifest, "/rows")) {
    if (text_at(row, "/verdict") == "regression") {
      const Json& explanations = value_at(manifest, "/human/explanations");
      const std::string key = text_at(row, "/key");
      const std::string why =
          explanations.contains(key) ? explanations.at(key).get<std::string>() : "";
      result += fmt::format("- {} ({}): {}\n", row_name(row), text_at(row, "/backend"),
                            or_to_fill(why, "why this row regressed"));
    }
  }
  return result.empty() ? " none\n" : "\n" + result;
}

std::string notes_text(const Json& manifest) {
  std::string result = fmt::format("Helper skill: {}\n", text_at(manifest, "/skill/note"));
  for (const Json& note : value_at(manifest, "/notes")) {
    result += fmt::format("note: {}\n", note.is_string() ? note.get<std::string>() : note.dump());
  }
  if (value_at(manifest, "/head/dirty") == true) {
    result += fmt::format("note: head was measured before it was committed (tree {})\n",
                          text_at(manifest, "/head/tree"));
  }
  if (text_at(manifest, "/machine/class") == "reference") {
    result += "note: reference-only hardware; these numbers carry no conclusion\n";
  }
  const Json& explanations = value_at(manifest, "/human/explanations");
  for (const auto& [subject, why] : explanations.items()) {
    if (subject.find('|') == std::string::npos && why.is_string()) {
      result += fmt::format("note: {}: {}\n", subject, why.get<std::string>());
    }
  }
  return result;
}

std::string digest_block(const Json& manifest) {
  const Json block = {{"schema", "fla.digest/1"},
                      {"run_name", text_at(manifest, "/run_name")},
                      {"base_tree", text_at(manifest, "/base/tree")},
                      {"head_tree", text_at(manifest, "/head/tree")},
                      {"hardware_id", text_at(manifest, "/machine/hardware_id")},
                      {"class", text_at(manifest, "/machine/class")},
                      {"verdict", text_at(manifest, "/verdict")},
                      {"conclusion", text_at(manifest, "/human/conclusion")},
                      {"coverage", value_at(manifest, "/coverage")},
                      {"manifest", manifest_digest(manifest)}};
  return fmt::format("{}{}{}\n", kBlockStart, host::to_base64(block.dump()), kBlockEnd);
}

std::string conclusion_text(const Json& manifest) {
  const std::string word = text_at(manifest, "/human/conclusion");
  return or_to_fill(word, "improvement, neutral or known trade-off; measured: " +
                              text_at(manifest, "/verdict")) +
         ". " +
         or_to_fill(text_at(manifest, "/human/conclusion_text"),
                    "what the numbers mean, in a sentence");
}

}  // namespace

std::string manifest_digest(const Json& manifest) {
  Json bound = manifest;
  bound.erase("human");
  return host::sha256(bound.dump());
}

std::string merge_request_text(const Json& manifest) {
  const auto human = [&](const char* path, std::string_view what) {
    return or_to_fill(text_at(manifest, path), what);
  };
  const Json& ok = value_at(manifest, "/gate/ok");
  return fmt::format(
      "## Summary\n\n{}\n\nScope: {}\n\n"
      "## Test plan\n\nGate: {}: {}; head tree {}\n\n"
      "## Benchmark / NCU\n\nHardware: {}\nWorkload: {} benches, {} rows; threshold {}\n"
      "Coverage: {}\nCommands:\n```\n{}```\n\n{}\n{}\n{}\n"
      "Conclusion: {}\nRegressed backends and shapes:{}Risk: {}\nAffected users: {}\n\n"
      "## Notes\n\n{}\n## Breaking changes\n\n{}\n\n{}",
      human("/human/summary", "what changed and why"), scope_text(manifest),
      text_at(manifest, "/gate/command").empty() ? "none configured"
                                                 : text_at(manifest, "/gate/command"),
      ok.is_null() ? "not run"
      : ok == true ? "green"
                   : "not green",
      text_at(manifest, "/head/tree"), hardware_line(manifest),
      value_at(manifest, "/benches").size(), value_at(manifest, "/rows").size(),
      percent_text(number_at(manifest, "/threshold")), coverage_line(manifest),
      commands_text(manifest), rows_table(manifest), groups_text(manifest), ncu_text(manifest),
      conclusion_text(manifest), regressed_text(manifest),
      human("/human/risk", "what could go wrong"), human("/human/impact", "who is affected"),
      notes_text(manifest), "none", digest_block(manifest));
}

Result<std::optional<Json>> read_digest_block(std::string_view text) {
  const size_t start = text.rfind(kBlockStart);
  if (start == std::string_view::npos) {
    return std::optional<Json>();
  }
  const std::string_view rest = text.substr(start + kBlockStart.size());
  const size_t end = rest.find(kBlockEnd);
  const Result<std::string> bytes = end == std::string_view::npos
                                        ? Status(Code::kIo, "it has no end")
                                        : host::from_base64(rest.substr(0, end));
  const Json block = bytes.ok() ? Json::parse(bytes.value(), nullptr, false) : Json();
  if (!block.is_object() || find_text(block, "schema") != "fla.digest/1") {
    return Status(Code::kIo, "the digest block of the merge-request text is damaged");
  }
  return std::optional<Json>(block);
}

}  // namespace fla::perf::evidence
