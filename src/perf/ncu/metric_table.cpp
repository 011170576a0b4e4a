// SPDX-License-Identifier: MIT
// Our names for what a kernel did, and the counters of each chip and profiler version that say it.
#include "perf/ncu/metric_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace fla::perf::ncu {
namespace {

struct Entry {
  std::string_view key;
  std::string_view unit;                       // of a plain counter without one in the report
  std::array<std::string_view, 4> candidates;  // in order; the rest is empty
  std::string_view look_alike;                 // part of the names to suggest when all are missing
};

constexpr Entry kEntries[] = {
    {"duration", "s", {"gpu__time_duration.sum"}, "time_duration"},
    {"compute_sol", "%", {"sm__throughput.avg.pct_of_peak_sustained_elapsed"}, "sm__throughput"},
    {"memory_sol",
     "%",
     {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"},
     "memory_throughput"},
    {"dram_pct",
     "%",
     {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
      "dram__throughput.avg.pct_of_peak_sustained_elapsed"},
     "dram__throughput"},
    {"dram_read", "byte", {"dram__bytes_read.sum", "dram__bytes_op_read.sum"}, "dram__bytes"},
    {"dram_write", "byte", {"dram__bytes_write.sum", "dram__bytes_op_write.sum"}, "dram__bytes"},
    {"l2_hit", "%", {"lts__t_sector_hit_rate.pct"}, "lts__t_sector"},
    {"l2_read_hit", "%", {"lts__t_sector_op_read_hit_rate.pct"}, "lts__t_sector_op_read"},
    {"l1_hit", "%", {"l1tex__t_sector_hit_rate.pct"}, "l1tex__t_sector"},
    {"l1_pct", "%", {"l1tex__throughput.avg.pct_of_peak_sustained_active"}, "l1tex__throughput"},
    {"l2_pct", "%", {"lts__throughput.avg.pct_of_peak_sustained_elapsed"}, "lts__throughput"},
    {"occ_achieved", "%", {"sm__warps_active.avg.pct_of_peak_sustained_active"}, "warps_active"},
    {"occ_theory", "%", {"sm__maximum_warps_per_active_cycle_pct"}, "maximum_warps"},
    {"occ_limit_blocks", "block", {"launch__occupancy_limit_blocks"}, "occupancy_limit"},
    {"occ_limit_registers", "block", {"launch__occupancy_limit_registers"}, "occupancy_limit"},
    {"occ_limit_shared_mem", "block", {"launch__occupancy_limit_shared_mem"}, "occupancy_limit"},
    {"occ_limit_warps", "block", {"launch__occupancy_limit_warps"}, "occupancy_limit"},
    {"occ_limit_barriers", "block", {"launch__occupancy_limit_barriers"}, "occupancy_limit"},
    {"regs", "", {"launch__registers_per_thread"}, "launch__registers"},
    {"regs_alloc", "", {"launch__registers_per_thread_allocated"}, "launch__registers"},
    {"smem", "byte", {"launch__shared_mem_per_block"}, "launch__shared_mem"},
    {"smem_dyn", "byte", {"launch__shared_mem_per_block_dynamic"}, "launch__shared_mem"},
    {"grid", "", {"launch__grid_size"}, "launch__grid"},
    {"block", "", {"launch__block_size"}, "launch__block"},
    {"waves", "", {"launch__waves_per_multiprocessor"}, "launch__waves"},
    {"cluster", "", {"launch__cluster_size"}, "launch__cluster"},
    {"sms",
     "",
     {"device__attribute_multiprocessor_count", "launch__sm_count"},
     "multiprocessor_count"},
    {"sm_cycles_min", "cycle", {"sm__cycles_active.min"}, "sm__cycles_active"},
    {"sm_cycles_avg", "cycle", {"sm__cycles_active.avg"}, "sm__cycles_active"},
    {"sm_cycles_max", "cycle", {"sm__cycles_active.max"}, "sm__cycles_active"},
    {"tensor_pipe_pct",
     "%",
     {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
      "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active.avg.pct_of_peak_"
      "sustained_elapsed",
      "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
      "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"},
     "pipe_tensor"},
    {"tc_pipe_pct",
     "%",
     {"sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_elapsed"},
     "pipe_tc"},
    {"tensor_inst",
     "%",
     {"sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active"},
     "tensor_op_gmma"},
    {"tc_inst", "inst", {"sm__inst_executed_pipe_tc.sum"}, "pipe_tc"},
    {"tma_ld", "byte", {"l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"}, "op_tma_ld"},
    {"tma_st", "byte", {"l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum"}, "op_tma_st"},
    {"fma_pct", "%", {"sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"}, "pipe_fma"},
    {"alu_pct", "%", {"sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active"}, "pipe_alu"},
    {"xu_pct", "%", {"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"}, "pipe_xu"},
    {"lsu_pct", "%", {"sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active"}, "pipe_lsu"},
    {"fp64_pct",
     "%",
     {"sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
      "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"},
     "pipe_fp64"},
    {"sectors_ld", "sector", {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"}, "t_sectors_pipe"},
    {"sectors_st", "sector", {"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"}, "t_sectors_pipe"},
    {"requests_ld", "", {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"}, "t_requests_pipe"},
    {"requests_st", "", {"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"}, "t_requests_pipe"},
    {"bytes_per_sector_ld",
     "byte/sector",
     {"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"},
     "data_bytes_per_sector"},
    {"bytes_per_sector_st",
     "byte/sector",
     {"smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"},
     "data_bytes_per_sector"},
    {"excess_sectors",
     "sector",
     {"derived__memory_l2_theoretical_sectors_global_excessive"},
     "theoretical_sectors_global"},
    {"sectors_global", "sector", {"memory_l2_theoretical_sectors_global"}, "sectors_global"},
    {"bank_conflicts_ld",
     "",
     {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"},
     "bank_conflicts"},
    {"bank_conflicts_st",
     "",
     {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"},
     "bank_conflicts"},
    {"wavefronts_ld",
     "",
     {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"},
     "wavefronts_mem_shared"},
    {"wavefronts_st",
     "",
     {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"},
     "wavefronts_mem_shared"},
    {"wavefronts", "", {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"}, "wavefronts_mem_shared"},
    {"excess_wavefronts",
     "",
     {"derived__memory_l1_wavefronts_shared_excessive"},
     "wavefronts_shared"},
    {"spill_inst", "inst", {"sass__inst_executed_register_spilling_mem_local"}, "spill"},
    {"local_ld", "inst", {"smsp__sass_inst_executed_op_local_ld.sum"}, "op_local"},
    {"local_st", "inst", {"smsp__sass_inst_executed_op_local_st.sum"}, "op_local"},
    {"local_sectors",
     "sector",
     {"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"},
     "mem_local_op_ld"},
    {"local_misses",
     "sector",
     {"l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum"},
     "mem_local_op_ld"},
    {"instructions", "inst", {"smsp__inst_executed.sum", "sm__inst_executed.sum"}, "inst_executed"},
    {"issue", "inst/cycle", {"smsp__issue_active.avg.per_cycle_active"}, "issue_active"},
    {"eligible", "warp", {"smsp__warps_eligible.avg.per_cycle_active"}, "warps_eligible"},
    {"threads_per_inst",
     "thread",
     {"smsp__thread_inst_executed_per_inst_executed.ratio"},
     "per_inst_executed"},
    {"samples", "", {"smsp__pcsamp_sample_count"}, "pcsamp"},
    {"inter_issue",
     "cycle",
     {"smsp__average_warp_latency_per_inst_issued.ratio",
      "smsp__average_warps_active_per_inst_executed.ratio"},
     "per_inst_issued"},
};

std::vector<std::string> look_alikes(const Launch& launch, std::string_view part) {
  constexpr size_t kMost = 3;
  std::vector<std::string> names;
  for (const auto& [name, metric] : launch.metrics) {
    if (names.size() < kMost && name.find(part) != std::string::npos) {
      names.push_back(name);
    }
  }
  return names;
}

void look_up(const Launch& launch, const Entry& entry, const ExtraCandidates& extra,
             Metrics* metrics) {
  std::vector<std::string> candidates(entry.candidates.begin(), entry.candidates.end());
  std::erase(candidates, "");
  if (const auto more = extra.find(entry.key); more != extra.end()) {
    candidates.insert(candidates.end(), more->second.begin(), more->second.end());
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto found = launch.metrics.find(candidates[i]);
    if (found == launch.metrics.end()) {
      continue;
    }
    const Quantity& quantity = found->second.quantity;
    Resolved resolved = {
        .value = quantity.value,
        .unit = quantity.unit.empty() ? std::string(entry.unit) : quantity.unit,
        .name_used = candidates[i],
        .missing = {candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(i)},
        .flags = {}};
    if (resolved.unit == "%" && resolved.value > 100.5) {
      resolved.flags.emplace_back("over-100");
    }
    metrics->found.emplace(entry.key, std::move(resolved));
    return;
  }
  metrics->missing.emplace(entry.key,
                           Missing{std::move(candidates), look_alikes(launch, entry.look_alike)});
}

/// Adds a value that follows from others, under a formula for a name.
void derive(std::string_view key, std::optional<double> value, std::string_view unit,
            std::string_view formula, Metrics* metrics) {
  if (value && !metrics->found.contains(key)) {
    metrics->missing.erase(std::string(key));
    metrics->found.emplace(key, Resolved{.value = *value,
                                         .unit = std::string(unit),
                                         .name_used = std::string(formula),
                                         .missing = {},
                                         .flags = {}});
  } else if (!metrics->found.contains(key)) {
    metrics->missing.emplace(key, Missing{{std::string(formula)}, {}});
  }
}

std::optional<double> sum(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

std::optional<double> ratio(std::optional<double> a, std::optional<double> b) {
  return a && b && *b > 0 ? std::optional(*a / *b) : std::nullopt;
}

/// The larger of the two pipes that do matrix products; on most chips there is only one.
std::optional<double> tensor_share(const Metrics& metrics) {
  const std::optional<double> a = metrics.value("tensor_pipe_pct");
  const std::optional<double> b = metrics.value("tc_pipe_pct");
  return a && b ? std::optional(std::max(*a, *b)) : a ? a : b;
}

void derive_all(const Launch& launch, Metrics* metrics) {
  const auto value = [&](std::string_view key) { return metrics->value(key); };
  derive("dram_pct",
         sum(launch.value("dram__bytes_read.sum.pct_of_peak_sustained_elapsed"),
             launch.value("dram__bytes_write.sum.pct_of_peak_sustained_elapsed")),
         "%", "dram__bytes_read + dram__bytes_write, shares of peak", metrics);
  derive("dram_bytes", sum(value("dram_read"), value("dram_write")), "byte",
         "dram_read + dram_write", metrics);
  const std::optional<double> rate = sum(launch.value("dram__bytes_read.sum.per_second"),
                                         launch.value("dram__bytes_write.sum.per_second"));
  derive("dram_bytes_per_s", rate ? rate : ratio(value("dram_bytes"), value("duration")), "byte/s",
         rate ? "dram__bytes_read + dram__bytes_write, per second" : "dram_bytes / duration",
         metrics);
  derive("tensor_pct", tensor_share(*metrics), "%", "max(tensor_pipe_pct, tc_pipe_pct)", metrics);
  derive("spill_inst", sum(value("local_ld"), value("local_st")), "inst", "local_ld + local_st",
         metrics);
  for (const std::string op : {"ld", "st"}) {
    derive("sectors_per_req_" + op, ratio(value("sectors_" + op), value("requests_" + op)),
           "sector", fmt::format("sectors_{0} / requests_{0}", op), metrics);
    derive("bank_conf_" + op, ratio(value("bank_conflicts_" + op), value("wavefronts_" + op)), "",
           fmt::format("bank_conflicts_{0} / wavefronts_{0}", op), metrics);
  }
}

}  // namespace

std::optional<double> Metrics::value(std::string_view key) const {
  const auto at = found.find(key);
  return at != found.end() ? std::optional(at->second.value) : std::nullopt;
}

Metrics resolve_metrics(const Launch& launch, const ExtraCandidates& extra) {
  Metrics metrics;
  for (const Entry& entry : kEntries) {
    look_up(launch, entry, extra, &metrics);
  }
  derive_all(launch, &metrics);
  return metrics;
}

std::string key_of_counter(std::string_view counter) {
  if (counter.empty()) {
    return {};
  }
  for (const Entry& entry : kEntries) {
    if (std::find(entry.candidates.begin(), entry.candidates.end(), counter) !=
        entry.candidates.end()) {
      return std::string(entry.key);
    }
  }
  return {};
}

const std::vector<std::string>& metric_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const Entry& entry : kEntries) {
      names.emplace_back(entry.key);
    }
    for (const char* name : {"dram_bytes", "dram_bytes_per_s", "tensor_pct", "sectors_per_req_ld",
                             "sectors_per_req_st", "bank_conf_ld", "bank_conf_st"}) {
      names.emplace_back(name);
    }
    return names;
  }();
  return keys;
}

}  // namespace fla::perf::ncu
