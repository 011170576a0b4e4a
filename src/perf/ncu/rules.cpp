// SPDX-License-Identifier: MIT
// The rules of the diagnosis, one function each. Thresholds are those of the profiler's own rules
// where it has them.
#include "perf/ncu/rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace fla::perf::ncu {
namespace {

constexpr double kLead = 10;    // points between two units before one of them is the limit
constexpr double kWhole = 100;  // size of what limits the kernel as a whole: it is said first

struct SpeedOfLight {
  double compute;
  double memory;
};

std::optional<SpeedOfLight> speed_of_light(const Symptoms& s) {
  const std::optional<double> compute = s.metrics.value("compute_sol");
  const std::optional<double> memory = s.metrics.value("memory_sol");
  return compute && memory ? std::optional(SpeedOfLight{*compute, *memory}) : std::nullopt;
}

std::vector<Number> sol_numbers(const SpeedOfLight& sol) {
  return {{"memory SOL", sol.memory, "%"}, {"compute SOL", sol.compute, "%"}};
}

bool is_latency_bound(const Symptoms& s) {
  const auto sol = speed_of_light(s);
  return sol && sol->compute < kBusy && sol->memory < kBusy;
}

/// The largest of some metrics that are there.
std::optional<Number> fullest(const Metrics& metrics,
                              std::initializer_list<std::pair<const char*, const char*>> units) {
  std::optional<Number> best;
  for (const auto& [name, key] : units) {
    const std::optional<double> value = metrics.value(key);
    if (value && (!best || *value > best->value)) {
      best = Number{name, *value, "%"};
    }
  }
  return best;
}

/// The stall that costs most; the state of a warp that issues is none.
const Stall* top_stall(const std::vector<Stall>& stalls) {
  const auto found = std::find_if(stalls.begin(), stalls.end(),
                                  [](const Stall& stall) { return stall.reason != "selected"; });
  return found != stalls.end() ? &*found : nullptr;
}

std::optional<Finding> memory_bound(const Symptoms& s) {
  constexpr double kNearCeiling = 80;
  const auto sol = speed_of_light(s);
  if (!sol || sol->memory < kBusy || sol->memory - sol->compute < kLead) {
    return std::nullopt;
  }
  Finding finding = {.id = "D1", .numbers = sol_numbers(*sol), .size = kWhole};
  const auto unit = fullest(s.metrics, {{"DRAM", "dram_pct"}, {"L2", "l2_pct"}, {"L1", "l1_pct"}});
  const double dram = s.metrics.or_zero("dram_pct");
  const std::string name = dram >= kBusy                  ? "DRAM"
                           : unit && unit->name != "DRAM" ? unit->name
                                                          : "memory";
  finding.title = name + "-bound";
  if (unit) {
    finding.numbers.push_back(*unit);
  }
  if (name == "DRAM" && unit->name != "DRAM") {
    finding.numbers.push_back({"DRAM", dram, "%"});
  }
  const bool near_ceiling = dram >= kNearCeiling;
  finding.text = near_ceiling ? "DRAM is near its ceiling: only fewer bytes make it faster"
                              : "the memory system limits the kernel, arithmetic does not";
  finding.severity = near_ceiling ? Severity::kNote : Severity::kWarning;
  return finding;
}

std::optional<Number> fullest_pipe(const Symptoms& s) {
  return fullest(s.metrics, {{"tensor pipe", "tensor_pct"},
                             {"FMA pipe", "fma_pct"},
                             {"ALU pipe", "alu_pct"},
                             {"XU pipe", "xu_pct"},
                             {"LSU pipe", "lsu_pct"},
                             {"FP64 pipe", "fp64_pct"}});
}

std::optional<Finding> compute_bound(const Symptoms& s) {
  const auto sol = speed_of_light(s);
  if (!sol || sol->compute < kBusy || sol->compute - sol->memory < kLead) {
    return std::nullopt;
  }
  Finding finding = {
      .id = "D2", .title = "compute-bound", .numbers = sol_numbers(*sol), .size = kWhole};
  finding.severity = Severity::kNote;
  finding.text = "the SMs limit the kernel";
  if (const auto pipe = fullest_pipe(s)) {
    finding.numbers.push_back(*pipe);
    const std::string_view level = pipe->value >= kPipeHeavy ? "heavily used"
                                   : pipe->value < kPipeIdle ? "nearly idle"
                                                             : "in use";
    finding.text =
        fmt::format("the SMs limit the kernel; the fullest unit, the {}, is {}", pipe->name, level);
  }
  return finding;
}

std::optional<Finding> balanced(const Symptoms& s) {
  const auto sol = speed_of_light(s);
  if (!sol || std::max(sol->compute, sol->memory) < kBusy ||
      std::abs(sol->compute - sol->memory) >= kLead) {
    return std::nullopt;
  }
  return Finding{.id = "D3",
                 .title = "balanced",
                 .severity = Severity::kNote,
                 .text = "arithmetic and memory are equally full; both must shrink",
                 .numbers = sol_numbers(*sol),
                 .size = kWhole};
}

std::optional<Finding> latency_bound(const Symptoms& s) {
  constexpr double kIssueLow = 0.6;
  if (!is_latency_bound(s)) {
    return std::nullopt;
  }
  const SpeedOfLight sol = *speed_of_light(s);
  Finding finding = {
      .id = "D4", .title = "latency-bound", .numbers = sol_numbers(sol), .size = kWhole};
  finding.text = "neither arithmetic nor memory is full: warps wait";
  const std::optional<double> issue = s.metrics.value("issue");
  if (issue && *issue < kIssueLow) {
    finding.numbers.push_back({"issue slots in use", *issue * 100, "%"});
  }
  if (const Stall* stall = top_stall(s.stalls.aggregate)) {
    finding.numbers.push_back({"stall " + stall->reason, stall->share * 100, "%"});
    finding.text += fmt::format(", most of all on {}", stall->reason);
  }
  const std::optional<double> eligible = s.metrics.value("eligible");
  if (eligible && *eligible >= 1) {
    finding.numbers.push_back({"eligible warps a scheduler", *eligible, ""});
    finding.severity = Severity::kNote;
    finding.text += "; yet a warp is ready in most cycles, so that waiting is not all of it";
  }
  return finding;
}

std::optional<Finding> small_grid(const Symptoms& s) {
  const std::optional<double> waves = s.metrics.value("waves");
  if (!is_latency_bound(s) || !waves || *waves >= 1) {
    return std::nullopt;
  }
  return Finding{.id = "D5",
                 .title = "small grid",
                 .text = "the grid does not fill the SMs once",
                 .numbers = {{"waves", *waves, ""}, {"blocks", s.metrics.or_zero("grid"), ""}},
                 .size = 100 * (1 - *waves)};
}

std::optional<Finding> tail(const Symptoms& s) {
  constexpr double kFill = 0.7;
  constexpr double kSpread = 1.2;
  constexpr double kTailLevel = 0.5;
  Finding finding = {.id = "D6", .title = "tail", .text = "the last blocks leave SMs without work"};
  if (const std::optional<double> waves = s.metrics.value("waves")) {
    const double fill = *waves - std::floor(*waves);
    if (*waves > 1 && *waves < 4 && fill > 0 && fill < kFill) {
      finding.numbers.push_back({"waves", *waves, ""});
      finding.numbers.push_back({"fill of the last wave", fill * 100, "%"});
      finding.size = 100 * (1 - fill) / std::ceil(*waves);
    }
  }
  const double mean = s.metrics.or_zero("sm_cycles_avg");
  const double most = s.metrics.or_zero("sm_cycles_max");
  if (mean > 0 && most > kSpread * mean) {
    finding.numbers.push_back({"busiest SM over the mean", most / mean, "x"});
    finding.size = std::max(finding.size, 100 * (1 - mean / most));
  }
  if (!s.timeline.series.empty()) {
    const std::optional<double> level = tail_level(s.timeline.series.front());
    if (level && *level < kTailLevel) {
      finding.numbers.push_back({"last tenth over the plateau", *level * 100, "%"});
      finding.size = std::max(finding.size, 10 * (1 - *level));
    }
  }
  return finding.numbers.empty() ? std::nullopt : std::optional(finding);
}

std::optional<Finding> occupancy_gap(const Symptoms& s) {
  const std::optional<double> theory = s.metrics.value("occ_theory");
  const std::optional<double> achieved = s.metrics.value("occ_achieved");
  if (!theory || !achieved || *theory - *achieved <= 10) {
    return std::nullopt;
  }
  return Finding{
      .id = "D7",
      .title = "occupancy gap",
      .severity = Severity::kNote,
      .text = "fewer warps are resident than the resources allow: uneven blocks or a short grid",
      .numbers = {{"achieved occupancy", *achieved, "%"}, {"theoretical", *theory, "%"}},
      .size = *theory - *achieved};
}

std::optional<Finding> occupancy_limited(const Symptoms& s) {
  constexpr double kLowTheory = 80;
  const std::optional<double> theory = s.metrics.value("occ_theory");
  const Limiter limiter = occupancy_limiter(s.metrics);
  const auto limit = std::find_if(
      limiter.resources.begin(), limiter.resources.end(), [](const std::string& resource) {
        return resource == "registers" || resource == "shared_mem" || resource == "blocks";
      });
  if (!theory || *theory >= kLowTheory || limit == limiter.resources.end() ||
      !is_latency_bound(s)) {
    return std::nullopt;
  }
  return Finding{.id = "D8",
                 .title = "occupancy limited by " + *limit,
                 .text = "warps wait, and more of them do not fit an SM",
                 .numbers = {{"theoretical occupancy", *theory, "%"},
                             {"blocks an SM", limiter.blocks, ""},
                             {"registers a thread", s.metrics.or_zero("regs"), ""},
                             {"shared memory a block", s.metrics.or_zero("smem") / 1024, "KiB"}},
                 .size = (100 - *theory) / 2};
}

/// The share of samples from which a state counts as a finding.
struct StallLimit {
  const char* reason;
  double share;
};

std::optional<Finding> stall_dominated(const Symptoms& s) {
  constexpr double kDominant = 0.3;
  constexpr double kIssueFull = 0.8;
  constexpr double kFewSelected = 0.1;
  constexpr std::array<StallLimit, 3> kLimits = {
      {{"long_scoreboard", 0.4}, {"short_scoreboard", 0.3}, {"barrier", 0.2}}};
  Finding finding = {.id = "D9", .title = "stalls"};
  const Stall* top = top_stall(s.stalls.aggregate);
  const std::optional<double> issue = s.metrics.value("issue");
  if (top != nullptr && top->share >= kDominant && issue && *issue < kIssueFull) {
    finding.title = "stalled on " + top->reason;
    finding.numbers.push_back({top->reason + ", of all cycles", top->share * 100, "%"});
    finding.numbers.push_back({"issue slots in use", *issue * 100, "%"});
    finding.size = top->share * 100;
  }
  for (const StallLimit& limit : kLimits) {
    if (const double share = stall_share(s.stalls.sampled, limit.reason); share > limit.share) {
      finding.numbers.push_back({fmt::format("{}, of samples", limit.reason), share * 100, "%"});
      if (share * 100 > finding.size) {
        finding.title = fmt::format("stalled on {}", limit.reason);
        finding.size = share * 100;
      }
    }
  }
  const double selected = stall_share(s.stalls.sampled, "selected");
  if (!s.stalls.sampled.empty() && selected < kFewSelected) {
    finding.numbers.push_back({"warps that issue, of samples", selected * 100, "%"});
    finding.size = std::max(finding.size, 1.0);
  }
  finding.text = "see the hot instructions for where warps wait";
  return finding.numbers.empty() ? std::nullopt : std::optional(finding);
}

std::optional<Finding> uncoalesced(const Symptoms& s) {
  constexpr double kExcess = 0.1;
  constexpr double kPerRequestWarn = 5;
  constexpr double kPerRequestBad = 8;
  constexpr double kHalfSector = 16;
  constexpr double kWholeSector = 28;  // wide accesses take many whole sectors a request, rightly
  const double lsu = lsu_bytes(s.metrics);
  const double tma = s.metrics.or_zero("tma_ld") + s.metrics.or_zero("tma_st");
  if (lsu <= 0.1 * (lsu + tma)) {
    return std::nullopt;
  }
  Finding finding = {.id = "D10",
                     .title = "uncoalesced accesses",
                     .text = "sectors of global memory are moved for a few of their bytes"};
  const double all = s.metrics.or_zero("sectors_global") > 0
                         ? s.metrics.or_zero("sectors_global")
                         : s.metrics.or_zero("sectors_ld") + s.metrics.or_zero("sectors_st");
  if (const double excess = s.metrics.or_zero("excess_sectors"); excess > kExcess * all) {
    finding.numbers.push_back({"excess sectors", 100 * excess / all, "%"});
    finding.size = 100 * excess / all;
  }
  for (const std::string op : {"ld", "st"}) {
    const std::optional<double> bytes = s.metrics.value("bytes_per_sector_" + op);
    const double per_request = s.metrics.or_zero("sectors_per_req_" + op);
    if (per_request > kPerRequestWarn && (!bytes || *bytes < kWholeSector)) {
      finding.numbers.push_back({"sectors a request, " + op, per_request, ""});
      finding.severity = per_request > kPerRequestBad ? Severity::kBad : finding.severity;
      finding.size = std::max(finding.size, 100 * (1 - 4 / per_request));
    }
    if (bytes && *bytes > 0 && *bytes < kHalfSector) {
      finding.numbers.push_back({"bytes used of a sector's 32, " + op, *bytes, ""});
      finding.size = std::max(finding.size, 100 * (1 - *bytes / 32));
    }
  }
  return finding.numbers.empty() ? std::nullopt : std::optional(finding);
}

std::optional<Finding> bank_conflicts(const Symptoms& s) {
  constexpr double kShare = 0.1;
  Finding finding = {.id = "D11",
                     .title = "bank conflicts",
                     .text = "accesses to shared memory take more passes than they need"};
  for (const std::string op : {"ld", "st"}) {
    if (const double share = s.metrics.or_zero("bank_conf_" + op); share > kShare) {
      finding.numbers.push_back({"conflicts a wavefront, " + op, share * 100, "%"});
      finding.size = std::max(finding.size, std::min(share, 1.0) * 100);
    }
  }
  const double wavefronts = s.metrics.or_zero("wavefronts");
  const double excess = s.metrics.or_zero("excess_wavefronts");
  if (wavefronts > 0 && excess > kShare * wavefronts) {
    finding.numbers.push_back({"excess wavefronts", 100 * excess / wavefronts, "%"});
    finding.size = std::max(finding.size, 100 * std::min(excess / wavefronts, 1.0));
  }
  return finding.numbers.empty() ? std::nullopt : std::optional(finding);
}

std::optional<Finding> spills(const Symptoms& s) {
  constexpr double kMissShare = 0.2;
  constexpr double kInstructionShare = 0.02;
  const double spilled = s.metrics.or_zero("spill_inst");
  if (spilled <= 0) {
    return std::nullopt;
  }
  Finding finding = {.id = "D12",
                     .title = "register spills",
                     .text = "registers do not suffice and go through local memory",
                     .numbers = {{"spill instructions", spilled, ""}},
                     .size = 1};
  const double instructions = s.metrics.or_zero("instructions");
  const double sectors = s.metrics.or_zero("local_sectors");
  const bool often = instructions > 0 && spilled > kInstructionShare * instructions;
  const bool misses = sectors > 0 && s.metrics.or_zero("local_misses") > kMissShare * sectors;
  if (instructions > 0) {
    finding.numbers.push_back({"of all instructions", 100 * spilled / instructions, "%"});
    finding.size = std::max(1.0, 100 * spilled / instructions);
  }
  if (misses) {
    finding.numbers.push_back(
        {"of its sectors miss L1", 100 * s.metrics.or_zero("local_misses") / sectors, "%"});
  }
  if (often || misses) {
    finding.title = "costly register spills";
    finding.severity = Severity::kBad;
  }
  return finding;
}

std::optional<Finding> tensor_idle(const Symptoms& s) {
  const std::optional<double> share = s.metrics.value("tensor_pct");
  if (!s.model.matrix_products || !share || *share >= 1) {
    return std::nullopt;
  }
  return Finding{.id = "D13",
                 .title = "tensor cores idle",
                 .severity = Severity::kNote,
                 .text = "the operator has matrix products, this kernel runs none on tensor cores",
                 .numbers = {{"tensor pipe", *share, "%"}},
                 .size = 50};
}

std::optional<Finding> divergence(const Symptoms& s) {
  constexpr double kFewThreads = 24;
  const std::optional<double> threads = s.metrics.value("threads_per_inst");
  if (!threads || *threads >= kFewThreads) {
    return std::nullopt;
  }
  return Finding{.id = "D14",
                 .title = "divergence",
                 .text = "instructions run for a part of the warp",
                 .numbers = {{"threads an instruction, of 32", *threads, ""}},
                 .size = 100 * (1 - *threads / 32)};
}

std::optional<Finding> stray_fp64(const Symptoms& s) {
  const double share = s.metrics.or_zero("fp64_pct");
  if (share <= 0 || s.model.dtype == "fp64") {
    return std::nullopt;
  }
  return Finding{.id = "D15",
                 .title = "stray fp64",
                 .text = "double precision in a kernel that needs none, perhaps a literal",
                 .numbers = {{"FP64 pipe", share, "%"}},
                 .size = share};
}

std::optional<Finding> special_functions(const Symptoms& s) {
  const double share = s.metrics.or_zero("xu_pct");
  if (share < kPipeHeavy) {
    return std::nullopt;
  }
  return Finding{.id = "D16",
                 .title = "special-function pressure",
                 .text = "the unit of exponentials and reciprocals is heavily used",
                 .numbers = {{"XU pipe", share, "%"}},
                 .size = share};
}

std::optional<Finding> traffic_excess(const Symptoms& s) {
  constexpr double kMuch = 1.3;
  constexpr double kLittle = 0.9;
  const std::optional<double> bytes = s.metrics.value("dram_bytes");
  if (!bytes || !s.model.min_bytes || *s.model.min_bytes <= 0) {
    return std::nullopt;
  }
  const double ratio = *bytes / *s.model.min_bytes;
  if (ratio >= kLittle && ratio <= kMuch) {
    return std::nullopt;
  }
  const bool excess = ratio > kMuch;
  return Finding{.id = "D17",
                 .title = excess ? "traffic excess" : "less traffic than the operator's minimum",
                 .severity = excess ? Severity::kWarning : Severity::kNote,
                 .text = excess ? "DRAM moves more than every input and output once: re-reads"
                                : "caches keep a part, or other kernels of the operator move it",
                 .numbers = {{"DRAM bytes", *bytes, "byte"},
                             {"operator's minimum", *s.model.min_bytes, "byte"},
                             {"ratio", ratio, "x"}},
                 .size = excess ? 100 * (1 - 1 / ratio) : 0};
}

constexpr std::array<Rule*, 17> kRules = {
    memory_bound,  compute_bound,     balanced,        latency_bound,     small_grid,     tail,
    occupancy_gap, occupancy_limited, stall_dominated, uncoalesced,       bank_conflicts, spills,
    tensor_idle,   divergence,        stray_fp64,      special_functions, traffic_excess};

}  // namespace

std::span<Rule* const> rules() {
  return kRules;
}

double lsu_bytes(const Metrics& metrics) {
  constexpr double kSector = 32;
  return kSector * (metrics.or_zero("sectors_ld") + metrics.or_zero("sectors_st"));
}

}  // namespace fla::perf::ncu
