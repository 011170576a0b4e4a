// SPDX-License-Identifier: MIT
// From evidence.json to Markdown.
#include "perf/evidence/merge_request.h"

#include <cmath>

#include <fmt/format.h>

#include "perf/adapters/json_input.h"
#include "perf/format.h"
#include "perf/host/digest.h"
#include "perf/host/process.h"

namespace fla::perf::evidence {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBlockStart = "<!-- fla-evidence ";
constexpr std::string_view kBlockEnd = " -->";

const Json& at(const Json& json, const char* path) {
  static const Json kNone;
  const Json::json_pointer pointer(path);
  return json.contains(pointer) ? json.at(pointer) : kNone;
}

std::string text(const Json& json, const char* path) {
  const Json& value = at(json, path);
  return value.is_string() ? value.get<std::string>() : "";
}

std::optional<double> number(const Json& json, const char* path) {
  const Json& value = at(json, path);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string or_to_fill(const std::string& written, std::string_view what) {
  return written.empty() ? fmt::format("{}{}]", kToFill, what) : written;
}

std::string milliseconds(const std::optional<double>& seconds) {
  return significant(seconds ? std::optional(*seconds * 1e3) : std::nullopt, 4);
}

std::string speedup_text(const Json& row) {
  const std::optional<double> value = number(row, "/speedup");
  if (!value) {
    return "-";
  }
  const std::optional<double> low = number(row, "/ci95/0");
  const std::optional<double> high = number(row, "/ci95/1");
  return low && high ? fmt::format("{:.4f} [{:.4f}, {:.4f}]", *value, *low, *high)
                     : fmt::format("{:.4f}", *value);
}

std::string percent_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100 * *share) : "-";
}

std::string throughput(const Json& row) {
  const std::optional<double> tokens = number(row, "/head/tokens_per_s");
  const std::optional<double> iters = number(row, "/head/iters_per_s");
  return tokens  ? with_suffix(tokens) + " tokens/s"
         : iters ? significant(iters, 4) + " iters/s"
                 : "-";
}

std::string memory_text(const Json& row) {
  if (!number(row, "/memory_moved")) {
    return "unchanged";
  }
  const double before = number(row, "/base/peak_bytes").value_or(0) * 0x1p-20;
  const double after = number(row, "/head/peak_bytes").value_or(0) * 0x1p-20;
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
  std::string key = text(row, "/key");
  for (char& c : key) {
    c = c == '|' ? ' ' : c;  // which would part the cells of a Markdown table
  }
  return key;
}

std::string verdict_cell(const Json& row) {
  const std::string word = text(row, "/verdict");
  const std::string state = text(row, "/state");
  return word == "regression" ? word + ", " + state
         : word == "neutral"
             ? fmt::format("neutral (would have seen {})", percent_text(number(row, "/mde")))
             : word;
}

std::string rows_table(const Json& manifest) {
  std::vector<std::vector<std::string>> cells = {{"row", "base ms", "head ms", "speed-up [95 %]",
                                                  "head throughput", "peak memory", "noise floor",
                                                  "verdict", "flags"}};
  for (const Json& row : at(manifest, "/rows")) {
    const auto side = [&](const char* seconds, const char* status) {
      return number(row, seconds) ? milliseconds(number(row, seconds)) : text(row, status);
    };
    cells.push_back({row_name(row), side("/base/median_s", "/base/status"),
                     side("/head/median_s", "/head/status"), speedup_text(row), throughput(row),
                     memory_text(row), percent_text(number(row, "/noise_floor")), verdict_cell(row),
                     in_words(at(row, "/flags"))});
  }
  return markdown(cells);
}

std::string groups_text(const Json& manifest) {
  std::string result;
  for (const Json& group : at(manifest, "/groups")) {
    const std::optional<double> mean = number(group, "/geomean");
    const std::optional<double> low = number(group, "/ci95/0");
    const std::optional<double> high = number(group, "/ci95/1");
    result += fmt::format("Geometric mean: {}: {}{} over {} rows, {} left out\n",
                          text(group, "/name"), mean ? fmt::format("{:.4f}", *mean) : "none",
                          low && high ? fmt::format(" [{:.4f}, {:.4f}]", *low, *high) : "",
                          at(group, "/rows").dump(), at(group, "/excluded").dump());
  }
  return result;
}

std::string hardware_line(const Json& manifest) {
  const std::string uuid = text(manifest, "/machine/uuid");
  return fmt::format("{} ({}), sm_{}, {}, driver {}", text(manifest, "/machine/name"),
                     text(manifest, "/machine/class"),
                     at(manifest, "/machine/compute_capability").dump(),
                     uuid.size() > 8 ? "UUID ..." + uuid.substr(uuid.size() - 8) : uuid,
                     text(manifest, "/machine/driver"));
}

std::string coverage_line(const Json& manifest) {
  const std::string reason = text(manifest, "/coverage/varlen_unsupported");
  return fmt::format(
      "dense {}, varlen {}", at(manifest, "/coverage/dense").dump(),
      reason.empty() ? at(manifest, "/coverage/varlen").dump() : "not supported: " + reason);
}

std::string commands_text(const Json& manifest) {
  std::string result;
  for (const Json& bench : at(manifest, "/benches")) {
    std::vector<std::string> argv;
    for (const Json& word : at(bench, "/argv")) {
      argv.push_back(word.is_string() ? word.get<std::string>() : "");
    }
    result +=
        fmt::format("{}@{} ({} rounds A B B A): {}\n", text(bench, "/label"),
                    text(bench, "/coverage"), at(bench, "/rounds").dump(), host::shell_line(argv));
  }
  return result;
}

std::string scope_text(const Json& manifest) {
  const std::string files = in_words(at(manifest, "/scope/kernel_files"));
  const std::string changed = in_words(at(manifest, "/scope/kernels/changed"));
  const std::string added = in_words(at(manifest, "/scope/kernels/added"));
  std::string result = files.empty() ? "no kernel file changed" : files;
  if (at(manifest, "/scope/kernels/known") == true) {
    result += fmt::format("; device code changed: {}{}{}", changed.empty() ? "none" : changed,
                          added.empty() ? "" : ", added: ", added);
  }
  return result;
}

std::string metric(const Json& profile, const char* key) {
  const std::optional<double> value =
      number(profile, fmt::format("/metrics/{}/value", key).c_str());
  return value ? fmt::format("{:.1f} %", *value) : "not in the report";
}

std::string hotspots_text(const Json& profile) {
  std::string result = "Hot instructions (share of samples):\n";
  int count = 0;
  const Json& hot = at(profile, "/hotspots");
  const Json& list = hot.is_object() ? at(hot, "/instructions") : hot;
  for (const Json& item : list.is_array() ? list : Json::array()) {
    if (++count > 10) {
      break;
    }
    const std::string sass =
        text(item, "/sass").empty() ? text(item, "/text") : text(item, "/sass");
    const std::string file = text(item, "/file");
    const std::string reason = text(item, "/top_reason");
    result +=
        fmt::format("- `{}` {}{}{}\n", sass, percent_text(number(item, "/share")),
                    reason.empty() ? "" : ", " + reason,
                    file.empty() ? "" : fmt::format(", {}:{}", file, at(item, "/line").dump()));
  }
  return count > 0 ? result : result + "- none: the report holds no samples\n";
}

std::string kernel_name(const Json& profile) {
  const Json& kernel = at(profile, "/kernel");
  return kernel.is_string()               ? kernel.get<std::string>()
         : !text(kernel, "/name").empty() ? text(kernel, "/name")
                                          : text(profile, "/pattern");
}

std::string profile_text(const Json& profile) {
  const Json& diagnoses = at(profile, "/diagnoses");
  const Json& first = diagnoses.is_array() && !diagnoses.empty() ? diagnoses[0] : Json();
  const std::string limiter = in_words(at(profile, "/launch/occupancy_limiter"));
  const std::string finding =
      text(first, "/text").empty() ? text(first, "/finding") : text(first, "/text");
  return fmt::format(
      "Kernel ({}): `{}`\n"
      "Memory throughput: {}, DRAM {}\n"
      "SOL: compute {}, memory {}\n"
      "Occupancy: achieved {}, theoretical {}, limited by {}\n"
      "{}Diagnosis: {} {}\n",
      text(profile, "/side"), kernel_name(profile), metric(profile, "memory_sol"),
      metric(profile, "dram_pct"), metric(profile, "compute_sol"), metric(profile, "memory_sol"),
      metric(profile, "occ_achieved"), metric(profile, "occ_theory"),
      limiter.empty() ? "nothing that the report names" : limiter, hotspots_text(profile),
      text(first, "/id").empty() ? "no rule fired" : text(first, "/id"), finding);
}

std::string ncu_text(const Json& manifest) {
  std::string result;
  for (const Json& profile : at(manifest, "/profiles")) {
    if (text(profile, "/outcome") == "done") {
      result += profile_text(profile) + '\n';
    }
  }
  if (result.empty()) {
    result = fmt::format("note: no Nsight Compute profile ({}): {}\n",
                         text(manifest, "/ncu/outcome"), text(manifest, "/ncu/note"));
  }
  return result;
}

std::string regressed_text(const Json& manifest) {
  std::string result;
  for (const Json& row : at(manifest, "/rows")) {
    if (text(row, "/verdict") == "regression") {
      const Json& explanations = at(manifest, "/human/explanations");
      const std::string key = text(row, "/key");
      const std::string why =
          explanations.contains(key) ? explanations.at(key).get<std::string>() : "";
      result += fmt::format("- {} ({}): {}\n", row_name(row), text(row, "/backend"),
                            or_to_fill(why, "why this row regressed"));
    }
  }
  return result.empty() ? " none\n" : "\n" + result;
}

std::string notes_text(const Json& manifest) {
  std::string result = fmt::format("Helper skill: {}\n", text(manifest, "/skill/note"));
  for (const Json& note : at(manifest, "/notes")) {
    result += fmt::format("note: {}\n", note.is_string() ? note.get<std::string>() : note.dump());
  }
  if (at(manifest, "/head/dirty") == true) {
    result += fmt::format("note: head was measured before it was committed (tree {})\n",
                          text(manifest, "/head/tree"));
  }
  if (text(manifest, "/machine/class") == "reference") {
    result += "note: reference-only hardware; these numbers carry no conclusion\n";
  }
  const Json& explanations = at(manifest, "/human/explanations");
  for (const auto& [subject, why] : explanations.items()) {
    if (subject.find('|') == std::string::npos && why.is_string()) {
      result += fmt::format("note: {}: {}\n", subject, why.get<std::string>());
    }
  }
  return result;
}

std::string digest_block(const Json& manifest) {
  const Json block = {{"schema", "fla.digest/1"},
                      {"run_name", text(manifest, "/run_name")},
                      {"base_tree", text(manifest, "/base/tree")},
                      {"head_tree", text(manifest, "/head/tree")},
                      {"hardware_id", text(manifest, "/machine/hardware_id")},
                      {"class", text(manifest, "/machine/class")},
                      {"verdict", text(manifest, "/verdict")},
                      {"conclusion", text(manifest, "/human/conclusion")},
                      {"coverage", at(manifest, "/coverage")},
                      {"manifest", manifest_digest(manifest)}};
  return fmt::format("{}{}{}\n", kBlockStart, host::to_base64(block.dump()), kBlockEnd);
}

std::string conclusion_text(const Json& manifest) {
  const std::string word = text(manifest, "/human/conclusion");
  return or_to_fill(word, "improvement, neutral or known trade-off; measured: " +
                              text(manifest, "/verdict")) +
         ". " +
         or_to_fill(text(manifest, "/human/conclusion_text"),
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
    return or_to_fill(text(manifest, path), what);
  };
  const Json& ok = at(manifest, "/gate/ok");
  return fmt::format(
      "## Summary\n\n{}\n\nScope: {}\n\n"
      "## Test plan\n\nGate: {}: {}; head tree {}\n\n"
      "## Benchmark / NCU\n\nHardware: {}\nWorkload: {} benches, {} rows; threshold {}\n"
      "Coverage: {}\nCommands:\n```\n{}```\n\n{}\n{}\n{}\n"
      "Conclusion: {}\nRegressed backends and shapes:{}Risk: {}\nAffected users: {}\n\n"
      "## Notes\n\n{}\n## Breaking changes\n\n{}\n\n{}",
      human("/human/summary", "what changed and why"), scope_text(manifest),
      text(manifest, "/gate/command").empty() ? "none configured" : text(manifest, "/gate/command"),
      ok.is_null() ? "not run"
      : ok == true ? "green"
                   : "not green",
      text(manifest, "/head/tree"), hardware_line(manifest), at(manifest, "/benches").size(),
      at(manifest, "/rows").size(), percent_text(number(manifest, "/threshold")),
      coverage_line(manifest), commands_text(manifest), rows_table(manifest), groups_text(manifest),
      ncu_text(manifest), conclusion_text(manifest), regressed_text(manifest),
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
