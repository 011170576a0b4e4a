// SPDX-License-Identifier: MIT
// The sections of a report about kernels.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perf/format.h"
#include "perf/report/sections.h"

namespace fla::perf::report {
namespace {

using ncu::KernelProfile;

/// A line of the headline table.
struct HeadlineRow {
  const char* name;
  const char* key;
};

constexpr HeadlineRow kHeadline[] = {{"duration under ncu (not a timing)", "duration"},
                                     {"compute SOL", "compute_sol"},
                                     {"memory SOL (memory throughput)", "memory_sol"},
                                     {"DRAM", "dram_pct"},
                                     {"DRAM rate", "dram_bytes_per_s"},
                                     {"DRAM read", "dram_read"},
                                     {"DRAM written", "dram_write"},
                                     {"L2 hit rate", "l2_hit"},
                                     {"L1 hit rate", "l1_hit"},
                                     {"tensor pipe", "tensor_pct"},
                                     {"XU pipe (exponentials)", "xu_pct"},
                                     {"achieved occupancy", "occ_achieved"},
                                     {"theoretical occupancy", "occ_theory"},
                                     {"registers a thread", "regs"},
                                     {"shared memory a block", "smem"},
                                     {"blocks", "grid"},
                                     {"waves", "waves"},
                                     {"instructions a scheduler issues", "issue"},
                                     {"TMA loads", "tma_ld"},
                                     {"spill instructions", "spill_inst"}};

std::string cell(const KernelProfile* profile, const char* key) {
  if (profile == nullptr) {
    return "-";
  }
  const auto found = profile->metrics.found.find(key);
  if (found == profile->metrics.found.end()) {
    return "not in the report";
  }
  const ncu::Resolved& metric = found->second;
  return metric_text(metric.value, metric.unit) +
         (metric.flags.empty() ? "" : fmt::format(" [{}]", fmt::join(metric.flags, ", ")));
}

std::string delta(const ProfilePair& pair, const char* key) {
  const std::optional<double> base = pair.base->metrics.value(key);
  const std::optional<double> head = pair.head->metrics.value(key);
  const auto found = pair.head->metrics.found.find(key);
  return base && head ? change_text(*base, *head, found->second.unit) : "-";
}

std::string limiter_text(const KernelProfile& profile) {
  return profile.limiter.resources.empty()
             ? "unknown"
             : fmt::format("{} ({:.0f} blocks an SM)", fmt::join(profile.limiter.resources, ", "),
                           profile.limiter.blocks);
}

Table headline_table(const ProfilePair& pair) {
  Table table;
  table.rows.push_back(pair.base == nullptr
                           ? std::vector<std::string>{"metric", "value"}
                           : std::vector<std::string>{"metric", "base", "head", "change"});
  for (const HeadlineRow& row : kHeadline) {
    std::vector<std::string> cells = {row.name};
    if (pair.base != nullptr) {
      cells.push_back(cell(pair.base, row.key));
    }
    cells.push_back(cell(pair.head, row.key));
    if (pair.base != nullptr) {
      cells.push_back(delta(pair, row.key));
    }
    table.rows.push_back(std::move(cells));
  }
  std::vector<std::string> limiter = {"occupancy limiter"};
  if (pair.base != nullptr) {
    limiter.push_back(limiter_text(*pair.base));
  }
  limiter.push_back(limiter_text(*pair.head));
  if (pair.base != nullptr) {
    limiter.emplace_back("-");
  }
  table.rows.push_back(std::move(limiter));
  return table;
}

bool is_count(const std::string& unit) {
  return unit == "byte" || unit == "sector" || unit == "inst" || unit.empty();
}

/// Counters that grow with the work, per unit of the operator's minimal bytes where the two runs
/// had different ones.
double work_ratio(const ProfilePair& pair) {
  const auto work = [](const KernelProfile& profile) {
    return profile.collection ? profile.collection->model.min_bytes : std::nullopt;
  };
  const std::optional<double> base = work(*pair.base);
  const std::optional<double> head = work(*pair.head);
  return base && head && *base > 0 && *head > 0 ? *head / *base : 1;
}

/// Every metric that moved by more than 1 %.
Table counter_changes(const ProfilePair& pair) {
  constexpr double kMoved = 0.01;
  const double ratio = work_ratio(pair);
  Table table;
  table.rows.push_back({"counter", "base", "head", "change"});
  for (const std::string& key : ncu::metric_keys()) {
    const auto base = pair.base->metrics.found.find(key);
    const auto head = pair.head->metrics.found.find(key);
    if (base == pair.base->metrics.found.end() || head == pair.head->metrics.found.end()) {
      continue;
    }
    const std::string& unit = head->second.unit;
    const bool scaled =
        ratio != 1 && is_count(unit) && !head->second.name_used.starts_with("launch");
    const double before = base->second.value * (scaled ? ratio : 1);
    const double after = head->second.value;
    if (std::abs(after - before) > kMoved * std::max(std::abs(before), std::abs(after))) {
      table.rows.push_back({key + (scaled ? ", base scaled to the head's work" : ""),
                            metric_text(before, unit), metric_text(after, unit),
                            change_text(before, after, unit)});
    }
  }
  return table;
}

std::string place(const ncu::Hotspot& spot) {
  return spot.line > 0
             ? fmt::format("{}:{}", std::filesystem::path(spot.file).filename().string(), spot.line)
             : "-";
}

Table hotspot_table(const std::vector<ncu::Hotspot>& spots, bool lines) {
  Table table;
  table.rows.push_back(lines ? std::vector<std::string>{"#", "source line", "hottest instruction",
                                                        "share", "waits for", "executed"}
                             : std::vector<std::string>{"#", "address", "instruction", "share",
                                                        "waits for", "executed", "source line"});
  for (size_t i = 0; i < spots.size(); ++i) {
    const ncu::Hotspot& spot = spots[i];
    std::vector<std::string> cells = {fmt::to_string(i + 1)};
    cells.push_back(lines ? place(spot) : spot.address);
    cells.push_back("`" + spot.text + "`");
    cells.push_back(percent(spot.share));
    cells.push_back(spot.reasons.empty() ? "-" : fmt::format("{}", fmt::join(spot.reasons, ", ")));
    cells.push_back(with_suffix(spot.executed));
    if (!lines) {
      cells.push_back(place(spot));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table stall_table(const ncu::Stalls& stalls) {
  constexpr size_t kTop = 5;
  Table table;
  table.rows.push_back(
      {"#", "counters: cycles a warp waits between two issues", "", "samples", ""});
  const auto name = [](const std::vector<ncu::Stall>& list, size_t i) {
    return i < list.size() ? list[i].reason : std::string("-");
  };
  const auto share = [](const std::vector<ncu::Stall>& list, size_t i) {
    return i < list.size() ? percent(list[i].share) : std::string("-");
  };
  const size_t rows = std::min(kTop, std::max(stalls.aggregate.size(), stalls.sampled.size()));
  for (size_t i = 0; i < rows; ++i) {
    table.rows.push_back({fmt::to_string(i + 1), name(stalls.aggregate, i),
                          share(stalls.aggregate, i), name(stalls.sampled, i),
                          share(stalls.sampled, i)});
  }
  return table;
}

std::string roofline_text(const ncu::Roofline& r) {
  if (!r.attainable()) {
    return "Roofline: no position: " + r.reason + ".";
  }
  return fmt::format(
      "Roofline: {} TFLOP/s{} at {} operations a byte of DRAM traffic, {} of what the roof allows "
      "there ({} TFLOP/s; {} peak {} TFLOP/s, DRAM {} TB/s at the clocks of the profile).",
      significant(*r.flops_per_s * 1e-12, 3),
      r.estimated ? " (an estimate from the share of time its pipe was active)" : "",
      significant(*r.flops_per_byte, 3), percent(*r.flops_per_s / *r.attainable()),
      significant(*r.attainable() * 1e-12, 3), r.unit, significant(*r.peak_flops_per_s * 1e-12, 3),
      significant(*r.peak_bytes_per_s * 1e-12, 3));
}

std::string launch_text(const KernelProfile& profile) {
  std::string text =
      fmt::format("`{}`, grid {}, block {}", profile.kernel, profile.grid, profile.block);
  if (profile.collection && profile.collection->choice.of > 0) {
    const ncu::Choice& choice = profile.collection->choice;
    text += fmt::format("; launch {} of {} that match, configuration share {} ({})",
                        choice.index + 1, choice.of, percent(choice.share), choice.reason);
  } else if (profile.collection) {
    text += "; " + profile.collection->choice.reason;
  }
  return text + ".";
}

/// A finding on one line, with what it means for the other side.
std::string finding_text(const ncu::Finding& finding, const KernelProfile* base) {
  const bool unchanged =
      base != nullptr && std::any_of(base->findings.begin(), base->findings.end(),
                                     [&](const ncu::Finding& one) { return one.id == finding.id; });
  return fmt::format("{} {} ({}): {}. {}.{}{}", finding.id, finding.title,
                     severity_name(finding.severity), finding.text, numbers_text(finding.numbers),
                     unchanged ? " Unchanged from the base." : "",
                     finding.overruled_by.empty() ? "" : " " + finding.overruled_by + ".");
}

Items hint_items(const KernelProfile& profile) {
  Items items;
  for (const ncu::RuleHint& hint : profile.hints) {
    const std::string overruled = overrule_hint(hint, profile.metrics);
    items.texts.push_back(fmt::format(
        "{}{}: {}{}", hint.rule,
        hint.speedup_pct
            ? fmt::format(" (its own estimate: {} {} %)", hint.speedup_type, *hint.speedup_pct)
            : "",
        hint.text, overruled.empty() ? "" : " [" + overruled + "]"));
  }
  return items;
}

}  // namespace

Section headline_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Kernel"});
  for (const ProfilePair& pair : pair_profiles(data)) {
    section.blocks.push_back(Heading{3, pair.head->tag});
    section.blocks.push_back(Paragraph{launch_text(*pair.head)});
    section.blocks.push_back(headline_table(pair));
    section.blocks.push_back(Paragraph{roofline_text(pair.head->roofline)});
    if (pair.base != nullptr) {
      const Table changes = counter_changes(pair);
      section.blocks.push_back(Paragraph{
          changes.rows.size() > 1
              ? fmt::format("Counters that moved by more than 1 % from `{}`:", pair.base->tag)
              : fmt::format("No counter moved by more than 1 % from `{}`.", pair.base->tag)});
      if (changes.rows.size() > 1) {
        section.blocks.push_back(changes);
      }
    }
  }
  if (data.profiles.empty()) {
    section.blocks.push_back(Paragraph{"No kernel was profiled."});
    return section;
  }
  std::vector<KernelProfile> all = data.profiles;
  all.insert(all.end(), data.earlier.begin(), data.earlier.end());
  add_figure(data, "roofline", "Roofline: kernels under the ceilings of the chip",
             roofline_script(all), &section.blocks, &section.notes);
  return section;
}

Section stalls_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Stalls and hot instructions"});
  for (const ProfilePair& pair : pair_profiles(data)) {
    const KernelProfile& profile = *pair.head;
    section.blocks.push_back(Heading{3, profile.tag});
    if (profile.stalls.aggregate.empty() && profile.stalls.sampled.empty()) {
      section.blocks.push_back(Paragraph{"The report has no stall counters."});
    } else {
      section.blocks.push_back(stall_table(profile.stalls));
      add_figure(data, "stalls_" + profile.tag, "Stalls of " + profile.tag, stalls_script(profile),
                 &section.blocks, &section.notes);
    }
    if (profile.hotspots.instructions.empty()) {
      section.blocks.push_back(Paragraph{"No instruction has a sample."});
      continue;
    }
    section.blocks.push_back(Paragraph{
        fmt::format("Hot instructions, of {:.0f} samples{}:", profile.hotspots.total_samples,
                    profile.hotspots.few_samples ? " [few-samples]" : "")});
    section.blocks.push_back(hotspot_table(profile.hotspots.instructions, /*lines=*/false));
    section.blocks.push_back(
        Paragraph{profile.hotspots.lines.empty()
                      ? "No source lines: the kernel was built without line information."
                      : "Hot source lines:"});
    if (!profile.hotspots.lines.empty()) {
      section.blocks.push_back(hotspot_table(profile.hotspots.lines, /*lines=*/true));
    }
  }
  return section;
}

Section timeline_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Timeline"});
  for (const ProfilePair& pair : pair_profiles(data)) {
    section.blocks.push_back(Heading{3, pair.head->tag});
    section.blocks.push_back(Listing{timeline_text(pair.head->timeline)});
    add_figure(data, "timeline_" + pair.head->tag, "Timeline of " + pair.head->tag,
               timeline_script(*pair.head), &section.blocks, &section.notes);
  }
  return section;
}

Section findings_section(const RunData& data) {
  Section section;
  section.blocks.push_back(Heading{2, "Findings"});
  for (const ProfilePair& pair : pair_profiles(data)) {
    section.blocks.push_back(Heading{3, pair.head->tag});
    Items counts;
    Items overruled;
    for (const ncu::Finding& finding : pair.head->findings) {
      (finding.overruled_by.empty() ? counts : overruled)
          .texts.push_back(finding_text(finding, pair.base));
    }
    if (counts.texts.empty()) {
      section.blocks.push_back(Paragraph{"No rule fired."});
    } else {
      section.blocks.push_back(counts);
    }
    if (!overruled.texts.empty()) {
      section.blocks.push_back(Paragraph{"Overruled for this kernel:"});
      section.blocks.push_back(overruled);
    }
    if (Items hints = hint_items(*pair.head); !hints.texts.empty()) {
      section.blocks.push_back(
          Paragraph{"Hints of the profiler's own rules; its estimates cannot be added up:"});
      section.blocks.push_back(std::move(hints));
    }
    if (!pair.head->gaps.empty()) {
      section.blocks.push_back(Paragraph{"Not there:"});
      section.blocks.push_back(Items{pair.head->gaps});
    }
  }
  return section;
}

}  // namespace fla::perf::report
