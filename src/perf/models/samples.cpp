// SPDX-License-Identifier: MIT
// A row's figures from its samples.
#include "perf/models/samples.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "perf/statistics.h"

namespace fla::perf {

void set_samples(std::span<const double> samples, ResultRow* row) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double q) {
    return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
  };
  row->median_s = median(samples);
  row->ci95_s = median_interval_95(samples);
  if (!row->ci95_s)
    row->null_reasons["ci95_s"] = "fewer than 6 samples";
  row->blocks = {{.round = 0,
                  .median_s = *row->median_s,
                  .q1_s = at(0.25),
                  .q3_s = at(0.75),
                  .min_s = sorted.front(),
                  .p95_s = at(0.95),
                  .n = static_cast<int64_t>(samples.size())}};
  row->status = RowStatus::kOk;
}

}  // namespace fla::perf
