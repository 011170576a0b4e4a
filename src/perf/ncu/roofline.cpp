// SPDX-License-Identifier: MIT
// Where a kernel lies under the ceilings of its chip: operations a second over operations a byte.
#include "perf/ncu/roofline.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace fla::perf::ncu {
namespace {

constexpr std::string_view kOpsPrefix = "sm__ops_path_tensor_op_";

/// Operations of all matrix instructions of one path ("hmma_", "hgmma_") over the launch.
double tensor_ops(const Launch& launch, std::string_view path) {
  const std::string prefix = fmt::format("{}{}", kOpsPrefix, path);
  double total = 0;
  for (auto at = launch.metrics.lower_bound(prefix);
       at != launch.metrics.end() && at->first.starts_with(prefix); ++at) {
    total += at->first.ends_with(".sum") ? at->second.quantity.value : 0;
  }
  return total;
}

std::optional<double> tensor_peak(const Launch& launch, std::string_view path) {
  return launch.value(
      fmt::format("{}{}src_bf16_dst_fp32_sparsity_off.sum.peak_sustained_elapsed.per_second",
                  kOpsPrefix, path));
}

std::optional<double> sm_hz(const Launch& launch) {
  for (const char* name :
       {"smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second",
        "gpc__cycles_elapsed.avg.per_second"}) {
    if (const std::optional<double> value = launch.value(name)) {
      return value;
    }
  }
  return std::nullopt;
}

/// fp32 operations a cycle, an FMA counted twice.
std::optional<double> fp32_ops_per_cycle(const Launch& launch) {
  const auto rate = [&](std::string_view op) {
    return launch.value(
        fmt::format("smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed", op));
  };
  const std::optional<double> ffma = rate("ffma");
  return ffma ? std::optional(2 * *ffma + rate("fadd").value_or(0) + rate("fmul").value_or(0))
              : std::nullopt;
}

void place_on_tensor_cores(const Launch& launch, const Metrics& metrics, Roofline* roofline) {
  const double hmma = tensor_ops(launch, "hmma_");
  const double hgmma = tensor_ops(launch, "hgmma_");
  const bool warpgroup = hgmma > 0 || (hmma == 0 && metrics.or_zero("tensor_inst") > 0);
  roofline->unit = warpgroup ? "tensor cores, wgmma" : "tensor cores, mma";
  roofline->peak_flops_per_s = tensor_peak(launch, warpgroup ? "hgmma_" : "hmma_");
  const std::optional<double> duration = metrics.value("duration");
  if (hmma + hgmma > 0 && duration && *duration > 0) {
    roofline->flops_per_s = (hmma + hgmma) / *duration;
  } else if (roofline->peak_flops_per_s) {
    roofline->flops_per_s = *roofline->peak_flops_per_s * metrics.or_zero("tensor_pct") / 100;
    roofline->estimated = true;
  }
}

}  // namespace

std::optional<double> Roofline::attainable() const {
  if (!peak_flops_per_s || !peak_bytes_per_s || !flops_per_byte) {
    return std::nullopt;
  }
  return std::min(*peak_flops_per_s, *peak_bytes_per_s * *flops_per_byte);
}

Roofline read_roofline(const Launch& launch, const Metrics& metrics) {
  constexpr double kTensorInUse = 1;  // percent of the pipe
  Roofline roofline;
  const std::optional<double> per_cycle = launch.value("dram__bytes.sum.peak_sustained");
  const std::optional<double> dram_hz = launch.value("dram__cycles_elapsed.avg.per_second");
  if (per_cycle && dram_hz) {
    roofline.peak_bytes_per_s = *per_cycle * *dram_hz;
  }
  if (metrics.or_zero("tensor_pct") >= kTensorInUse) {
    place_on_tensor_cores(launch, metrics, &roofline);
  } else {
    roofline.unit = "fp32";
    const std::optional<double> hz = sm_hz(launch);
    const std::optional<double> ops = fp32_ops_per_cycle(launch);
    const std::optional<double> peak =
        launch.value("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained");
    if (hz && ops) {
      roofline.flops_per_s = *ops * *hz;
    }
    if (hz && peak) {
      roofline.peak_flops_per_s = 2 * *peak * *hz;
    }
  }
  const double bytes_per_s = metrics.or_zero("dram_bytes_per_s");
  if (roofline.flops_per_s && bytes_per_s > 0) {
    roofline.flops_per_byte = *roofline.flops_per_s / bytes_per_s;
  }
  if (!roofline.flops_per_s) {
    roofline.reason = "the report does not count the operations of this kernel";
  } else if (!roofline.flops_per_byte) {
    roofline.reason = "the report has no DRAM traffic";
  } else if (!roofline.attainable()) {
    roofline.reason = "the report has no ceilings";
  }
  return roofline;
}

}  // namespace fla::perf::ncu
