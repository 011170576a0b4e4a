// SPDX-License-Identifier: MIT
// The facts that several rules share, the order of findings, and what overrules them.
#include "perf/ncu/diagnosis.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "perf/ncu/rules.h"

namespace fla::perf::ncu {
namespace {

constexpr std::string_view kByDesign =
    "by design: the grid fits the SMs at once and the kernel uses wgmma, tcgen05 or TMA";
constexpr std::string_view kTmaFed =
    "muted: the kernel is fed by TMA, which these counters do not see";
constexpr std::string_view kMatrixWait =
    "normal: a fixed wait between dependent instructions while the matrix unit works";

std::string_view overrule(const Finding& finding, const Symptoms& symptoms) {
  const std::string& id = finding.id;
  if ((id == "D5" || id == "D7" || id == "D8") && is_persistent(symptoms.metrics)) {
    return kByDesign;
  }
  if (id == "D10" && is_tma_fed(symptoms.metrics)) {
    return kTmaFed;
  }
  if (id == "D9" && finding.title == "stalled on wait" &&
      symptoms.metrics.or_zero("tensor_pct") >= kPipeHeavy) {
    return kMatrixWait;
  }
  return {};
}

}  // namespace

std::string severity_name(Severity severity) {
  return severity == Severity::kBad ? "bad" : severity == Severity::kWarning ? "warning" : "note";
}

Limiter occupancy_limiter(const Metrics& metrics) {
  constexpr std::array<const char*, 5> kResources = {"registers", "shared_mem", "warps", "blocks",
                                                     "barriers"};
  Limiter limiter;
  for (const char* resource : kResources) {
    const std::optional<double> blocks = metrics.value(std::string("occ_limit_") + resource);
    if (!blocks) {
      continue;
    }
    if (limiter.resources.empty() || *blocks < limiter.blocks) {
      limiter = {{resource}, *blocks};
    } else if (*blocks == limiter.blocks) {
      limiter.resources.emplace_back(resource);
    }
  }
  return limiter;
}

bool is_persistent(const Metrics& metrics) {
  const std::optional<double> grid = metrics.value("grid");
  const std::optional<double> sms = metrics.value("sms");
  const Limiter limiter = occupancy_limiter(metrics);
  const bool asynchronous = metrics.or_zero("tensor_inst") > 0 || metrics.or_zero("tc_inst") > 0 ||
                            metrics.or_zero("tma_ld") + metrics.or_zero("tma_st") > 0;
  return grid && sms && !limiter.resources.empty() && *grid <= *sms * limiter.blocks &&
         asynchronous;
}

bool is_tma_fed(const Metrics& metrics) {
  const double tma = metrics.or_zero("tma_ld") + metrics.or_zero("tma_st");
  return tma > lsu_bytes(metrics);
}

std::string overrule_hint(const RuleHint& hint, const Metrics& metrics) {
  constexpr std::array<std::string_view, 6> kOccupancyRules = {
      "AchievedOccupancy",   "TheoreticalOccupancy", "Occupancy",
      "LaunchConfiguration", "IssueSlotUtilization", "SMImbalance"};
  const bool about_occupancy =
      std::find(kOccupancyRules.begin(), kOccupancyRules.end(), hint.rule) != kOccupancyRules.end();
  return about_occupancy && is_persistent(metrics) ? std::string(kByDesign) : std::string();
}

std::vector<Finding> diagnose(const Symptoms& symptoms) {
  std::vector<Finding> findings;
  for (Rule* rule : rules()) {
    if (std::optional<Finding> finding = rule(symptoms)) {
      finding->overruled_by = overrule(*finding, symptoms);
      findings.push_back(std::move(*finding));
    }
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    const bool a_counts = a.overruled_by.empty();
    const bool b_counts = b.overruled_by.empty();
    return a_counts != b_counts ? a_counts : a.size > b.size;
  });
  return findings;
}

}  // namespace fla::perf::ncu
