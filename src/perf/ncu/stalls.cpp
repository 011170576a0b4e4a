// SPDX-License-Identifier: MIT
// What warps waited for: from counters over the whole launch, and from the warp sampler.
#include "perf/ncu/stalls.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace fla::perf::ncu {
namespace {

std::vector<Stall> collect(const Launch& launch, std::string_view prefix, std::string_view suffix) {
  std::vector<Stall> stalls;
  for (auto at = launch.metrics.lower_bound(prefix);
       at != launch.metrics.end() && at->first.starts_with(prefix); ++at) {
    std::string_view reason = std::string_view(at->first).substr(prefix.size());
    if (!reason.ends_with(suffix) || reason.ends_with("_not_issued")) {
      continue;
    }
    reason.remove_suffix(suffix.size());
    if (const double value = at->second.quantity.value; value > 0) {
      stalls.push_back({std::string(reason), value, 0});
    }
  }
  const double total = std::accumulate(stalls.begin(), stalls.end(), 0.0,
                                       [](double sum, const Stall& s) { return sum + s.value; });
  for (Stall& stall : stalls) {
    stall.share = stall.value / total;
  }
  std::stable_sort(stalls.begin(), stalls.end(),
                   [](const Stall& a, const Stall& b) { return a.value > b.value; });
  return stalls;
}

}  // namespace

Stalls read_stalls(const Launch& launch) {
  return {
      .aggregate = collect(launch, "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"),
      .sampled = collect(launch, "smsp__pcsamp_warps_issue_stalled_", "")};
}

double stall_share(const std::vector<Stall>& stalls, const std::string& reason) {
  const auto found = std::find_if(stalls.begin(), stalls.end(),
                                  [&](const Stall& stall) { return stall.reason == reason; });
  return found != stalls.end() ? found->share : 0;
}

}  // namespace fla::perf::ncu
