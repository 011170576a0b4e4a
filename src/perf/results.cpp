// SPDX-License-Identifier: MIT
// Results as table, Markdown, CSV and JSON.
#include "perf/results.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perf/format.h"
#include "perf/hardware/hardware_json.h"
#include "perf/host/digest.h"
#include "perf/json_value.h"

namespace fla::perf {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> defined(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Json interval(const std::optional<std::pair<double, double>>& pair) {
  if (!pair || !std::isfinite(pair->first) || !std::isfinite(pair->second)) {
    return nullptr;
  }
  return Json::array({pair->first, pair->second});
}

Json block_json(const Block& block) {
  return {{"round", block.round},
          {"median_s", or_null(block.median_s)},
          {"q1_s", or_null(block.q1_s)},
          {"q3_s", or_null(block.q3_s)},
          {"min_s", or_null(block.min_s)},
          {"p95_s", or_null(block.p95_s)},
          {"n", block.n}};
}

Json offsets_json(const ResultRow& row) {
  const bool dense = row.cu_seqlens.empty();
  return {{"n", dense ? 0 : row.cu_seqlens.size() - 1},
          {"digest", dense ? Json(nullptr) : Json(row.cu_seqlens_digest)},
          {"offsets", dense ? Json(nullptr) : Json(row.cu_seqlens)}};
}

/// Why a figure of this row is null when the row itself did not say.
std::string reason_of_null(const ResultRow& row, const Peaks& peaks) {
  if (row.status != RowStatus::kOk) {
    return row.reason;
  }
  if (!peaks.copy_bytes_per_s || !peaks.flops_per_s) {
    return peaks.copy_reason.empty() ? peaks.flops_reason : peaks.copy_reason;
  }
  return row.median_s ? "a divisor is zero" : "no samples";
}

/// Every null figure gets a reason.
Json null_reasons_json(const ResultRow& row, const Peaks& peaks, const Json& json) {
  Json reasons = Json::object();
  const auto note = [&](const std::string& key, const Json& value) {
    if (value.is_null()) {
      const auto own = row.null_reasons.find(key);
      reasons[key] = own == row.null_reasons.end() ? reason_of_null(row, peaks) : own->second;
    }
  };
  for (const char* key : {"plan", "median_s", "ci95_s", "tokens_per_s", "bandwidth_fraction",
                          "compute_fraction", "peak_bytes", "sm_mhz"}) {
    note(key, json.at(key));
  }
  for (const auto& [group, key] :
       {std::pair("model", "floor_s"), std::pair("model", "x_over_floor"),
        std::pair("accuracy", "rel_l2")}) {
    note(fmt::format("{}.{}", group, key), json.at(group).at(key));
  }
  return reasons;
}

Json row_json(const ResultRow& row, const Peaks& peaks) {
  const Derived derived = derive(row, peaks);
  Json blocks = Json::array();
  for (const Block& block : row.blocks) {
    blocks.push_back(block_json(block));
  }
  Json json = {{"key", row.key()},
               {"op", row.op},
               {"mode", row.mode},
               {"backend", row.backend},
               {"dtype", row.dtype},
               {"gates", row.gates},
               {"shape", row.shape},
               {"coverage", row.coverage},
               {"axes", row.axes},
               {"cu_seqlens", offsets_json(row)},
               {"plan", or_null(row.plan)},
               {"workload_digest", or_null(row.workload_digest)},
               {"status", row_status_name(row.status)},
               {"reason", or_null(row.reason)},
               {"timer", row.timer},
               {"rotation", row.rotation},
               {"sm_mhz", or_null(row.sm_mhz)},
               {"tokens", row.tokens},
               {"blocks", std::move(blocks)},
               {"median_s", or_null(row.median_s)},
               {"ci95_s", interval(row.ci95_s)},
               {"tokens_per_s", or_null(derived.tokens_per_s)},
               {"bandwidth_fraction", or_null(derived.bandwidth_fraction)},
               {"compute_fraction", or_null(derived.compute_fraction)},
               {"peak_bytes", or_null(row.peak_bytes)},
               {"model",
                {{"min_bytes", or_null(row.min_bytes)},
                 {"flops", or_null(row.flops)},
                 {"floor_s", or_null(derived.floor_s)},
                 {"x_over_floor", or_null(derived.x_over_floor)}}},
               {"figures", row.figures},
               {"accuracy", {{"ref", "fp64"}, {"rel_l2", or_null(row.rel_error)}}},
               {"flags", row.flags}};
  json["null_reasons"] = null_reasons_json(row, peaks, json);
  return json;
}

Json machine_json(const Results& results) {
  const Machine& machine = results.machine;
  return {{"cpu_model", machine.cpu_model},
          {"cores", machine.cores},
          {"threads", machine.threads},
          {"cache_bytes", machine.cache_bytes},
          {"simd_target", results.simd_target}};
}

Json peaks_json(const Peaks& peaks) {
  return {{"threads", peaks.threads},
          {"copy_bytes_per_s", or_null(peaks.copy_bytes_per_s)},
          {"copy_reason", or_null(peaks.copy_reason)},
          {"flops_per_s", or_null(peaks.flops_per_s)},
          {"flops_reason", or_null(peaks.flops_reason)},
          {"blas_core", or_null(peaks.blas_core)}};
}

Json gpu_json(const std::optional<Gpu>& gpu) {
  if (!gpu) {
    return nullptr;
  }
  return {{"name", gpu->name},
          {"driver", or_null(gpu->driver)},
          {"compute_capability", gpu->compute_capability},
          {"num_sms", gpu->num_sms},
          {"memory_bytes", gpu->memory_bytes},
          {"l2_bytes", gpu->l2_bytes},
          {"max_sm_mhz", or_null(gpu->max_sm_mhz)},
          {"peaks", peaks_json(gpu->peaks)},
          {"node_s", or_null(gpu->node_s)}};
}

bool any_on_cpu(const Results& results) {
  return std::any_of(results.rows.begin(), results.rows.end(), [](const ResultRow& row) {
    return row.backend == "cpu" || row.backend == "ref";
  });
}

/// A value for CSV: nothing where undefined, otherwise enough digits to read it back.
std::string csv_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

std::string peak_text(std::optional<double> value, double unit, const char* name,
                      const std::string& reason) {
  return value ? fmt::format("{} {}", significant(*value / unit, 3), name)
               : fmt::format("not measured ({})", reason);
}

std::string cpu_text(const Results& results) {
  const Machine& machine = results.machine;
  const Peaks& peaks = results.peaks;
  return fmt::format(
      "machine  {}, {} cores, {} threads used, SIMD {}\n"
      "peaks    copy {}, fp32 matrix product {}{}\n",
      machine.cpu_model, machine.cores, results.threads, results.simd_target,
      peak_text(peaks.copy_bytes_per_s, 1e9, "GB/s", peaks.copy_reason),
      peak_text(peaks.flops_per_s, 1e9, "GFLOP/s", peaks.flops_reason),
      peaks.blas_core.empty() ? "" : fmt::format(" (OpenBLAS {})", peaks.blas_core));
}

/// The lowest and the highest SM clock of the rows: "1755 to 1980 MHz".
std::string clocks_text(const Results& results) {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
  for (const ResultRow& row : results.rows) {
    if (row.sm_mhz) {
      low = std::min(low.value_or(*row.sm_mhz), *row.sm_mhz);
      high = std::max(high.value_or(*row.sm_mhz), *row.sm_mhz);
    }
  }
  return !low            ? "SM clock unknown"
         : *low == *high ? fmt::format("SM clock {} MHz", *low)
                         : fmt::format("SM clock {} to {} MHz", *low, *high);
}

std::string gpu_text(const Results& results) {
  const Gpu& gpu = *results.gpu;
  const Peaks& peaks = gpu.peaks;
  return fmt::format(
      "gpu      {}, sm_{}, {} SMs, {} GiB, driver {}, {}\n"
      "peaks    copy {}, bf16 matrix product {}, graph node {} us\n",
      gpu.name, gpu.compute_capability, gpu.num_sms,
      significant(static_cast<double>(gpu.memory_bytes) * 0x1p-30, 4),
      gpu.driver.empty() ? "unknown" : gpu.driver, clocks_text(results),
      peak_text(peaks.copy_bytes_per_s, 1e12, "TB/s", peaks.copy_reason),
      peaks.flops_per_s ? fmt::format("{} TFLOP/s ({})", significant(*peaks.flops_per_s * 1e-12, 3),
                                      peaks.blas_core)
                        : fmt::format("not measured ({})", peaks.flops_reason),
      significant(gpu.node_s ? std::optional(*gpu.node_s * 1e6) : std::nullopt, 3));
}

/// A line for each row that has no timing.
std::string failures_text(const Results& results) {
  std::string text;
  for (const ResultRow& row : results.rows) {
    if (row.status != RowStatus::kOk) {
      text += fmt::format("{}: {}: {}\n", row_status_name(row.status), row.key(), row.reason);
    }
  }
  return text;
}

}  // namespace

std::string_view row_status_name(RowStatus status) {
  constexpr std::string_view kNames[] = {"ok", "failed", "skipped", "unavailable"};
  return kNames[static_cast<size_t>(status)];
}

std::string ResultRow::key() const {
  std::string text;
  for (const auto& [axis, value] : axes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis, value);
  }
  return fmt::format("{}|{}|{}|{}|{}|{}{}", op, mode, backend, dtype, text.empty() ? "-" : text,
                     coverage, gates == "registry" ? "" : "|" + gates);
}

std::string Results::hardware_id() const {
  if (card) {
    return card->id();
  }
  if (gpu) {
    return "gpu:" + host::sha256(fmt::format("{}|{}|{}|{}", gpu->name, gpu->compute_capability,
                                             gpu->num_sms, gpu->memory_bytes));
  }
  return "cpu:" + host::sha256(fmt::format("{}|{}|{}|{}|{}", machine.cpu_model, machine.cores,
                                           machine.threads, machine.cache_bytes, threads));
}

Derived derive(const ResultRow& row, const Peaks& peaks) {
  Derived derived;
  if (peaks.copy_bytes_per_s && peaks.flops_per_s) {
    derived.floor_s =
        defined(std::max(row.min_bytes / *peaks.copy_bytes_per_s, row.flops / *peaks.flops_per_s));
  }
  if (row.median_s) {
    const double seconds = *row.median_s;
    if (row.tokens > 0) {
      derived.tokens_per_s = defined(static_cast<double>(row.tokens) / seconds);
    }
    if (derived.floor_s) {
      derived.x_over_floor = defined(seconds / *derived.floor_s);
    }
    if (peaks.copy_bytes_per_s) {
      derived.bandwidth_fraction = defined(row.min_bytes / seconds / *peaks.copy_bytes_per_s);
    }
    if (peaks.flops_per_s) {
      derived.compute_fraction = defined(row.flops / seconds / *peaks.flops_per_s);
    }
  }
  return derived;
}

std::string header_text(const Results& results) {
  const bool on_cpu = any_on_cpu(results);
  return (on_cpu ? cpu_text(results) : "") + (results.gpu ? gpu_text(results) : "") +
         fmt::format("run      {}, fla {} commit {}{}, seed {}, {} cache{}\n", results.created,
                     results.version, results.commit.substr(0, 12), results.dirty ? " (dirty)" : "",
                     results.seed, results.cache, on_cpu ? ", CPU: not a GPU measurement" : "");
}

std::vector<std::vector<std::string>> table_cells(const Results& results) {
  std::vector<std::vector<std::string>> cells = {{"op", "mode", "backend", "dtype", "shape", "ms",
                                                  "95% interval", "tokens/s", "% copy", "% compute",
                                                  "x floor", "peak MiB", "flags"}};
  for (const ResultRow& row : results.rows) {
    const Derived derived = derive(row, results.peaks_of(row));
    const std::string shape =
        row.shape +
        (row.coverage == "dense" ? "" : ' ' + row.coverage.substr(row.coverage.find(':') + 1)) +
        (row.gates == "registry" ? "" : ' ' + row.gates);
    const std::string range = row.ci95_s
                                  ? fmt::format("[{}, {}]", significant(row.ci95_s->first * 1e3, 4),
                                                significant(row.ci95_s->second * 1e3, 4))
                                  : "-";
    std::vector<std::string> flags = row.flags;
    if (row.status != RowStatus::kOk) {
      flags.insert(flags.begin(), std::string(row_status_name(row.status)));
    }
    cells.push_back({row.op, row.mode, row.backend, row.dtype, shape,
                     significant(milliseconds(row.median_s), 4), range,
                     with_suffix(derived.tokens_per_s), percent(derived.bandwidth_fraction),
                     percent(derived.compute_fraction), significant(derived.x_over_floor, 3),
                     mib(row.peak_bytes), fmt::format("{}", fmt::join(flags, ", "))});
  }
  return cells;
}

std::string to_text(const Results& results) {
  const std::vector<bool> left = {true,  true,  true,  true,  true,  false, false,
                                  false, false, false, false, false, true};
  const std::string failures = failures_text(results);
  return header_text(results) + '\n' + align(table_cells(results), left) +
         (failures.empty() ? "" : '\n' + failures);
}

std::string to_markdown(const Results& results) {
  const std::string failures = failures_text(results);
  return "```\n" + header_text(results) + "```\n\n" + markdown(table_cells(results)) +
         (failures.empty() ? "" : "\n```\n" + failures + "```\n");
}

std::string to_csv(const Results& results) {
  std::string text =
      "key,op,mode,backend,dtype,shape,coverage,status,reason,median_s,ci95_low_s,ci95_high_s,"
      "tokens_per_s,bandwidth_fraction,compute_fraction,peak_bytes,min_bytes,flops,rel_l2,flags,"
      "gates,timer,rotation,floor_s\n";
  for (const ResultRow& row : results.rows) {
    const Derived derived = derive(row, results.peaks_of(row));
    const auto end = [&](double std::pair<double, double>::*member) {
      return row.ci95_s ? std::optional((*row.ci95_s).*member) : std::nullopt;
    };
    for (const std::string& field :
         {row.key(), row.op, row.mode, row.backend, row.dtype, row.shape, row.coverage,
          std::string(row_status_name(row.status)), row.reason}) {
      text += csv_field(field) + ',';
    }
    for (std::optional<double> value :
         {row.median_s, end(&std::pair<double, double>::first),
          end(&std::pair<double, double>::second), derived.tokens_per_s, derived.bandwidth_fraction,
          derived.compute_fraction}) {
      text += csv_number(value) + ',';
    }
    text += (row.peak_bytes ? fmt::format("{}", *row.peak_bytes) : "") + ',';
    for (std::optional<double> value :
         {std::optional(row.min_bytes), std::optional(row.flops), row.rel_error}) {
      text += csv_number(value) + ',';
    }
    text += fmt::format("{},{},{},{},{}\n", csv_field(fmt::format("{}", fmt::join(row.flags, " "))),
                        row.gates, row.timer, row.rotation, csv_number(derived.floor_s));
  }
  return text;
}

std::string to_json(const Results& results) {
  Json rows = Json::array();
  for (const ResultRow& row : results.rows) {
    rows.push_back(row_json(row, results.peaks_of(row)));
  }
  const Json json = {
      {"schema", "fla.results/1"},
      {"kind", results.kind},
      {"created", results.created},
      {"tool", {{"version", results.version}}},
      {"source", {{"repo", "fla.cpp"}, {"commit", results.commit}, {"dirty", results.dirty}}},
      {"command", {{"argv", results.argv}}},
      {"validity",
       {{"for_mr", false}, {"reasons", {any_on_cpu(results) ? "cpu-backend" : "no-comparison"}}}},
      {"seed", results.seed},
      {"threads", results.threads},
      {"cache", results.cache},
      {"hardware_id", results.hardware_id()},
      {"hardware", machine_json(results)},
      {"card", results.card ? hardware_json(*results.card) : Json(nullptr)},
      {"session",
       {{"boot_id", or_null(results.boot_id)},
        {"gpu_uuid", or_null(results.card ? results.card->uuid : "")}}},
      {"peaks", peaks_json(results.peaks)},
      {"gpu", gpu_json(results.gpu)},
      {"rows", std::move(rows)}};
  // Names that are not UTF-8 must not make the document unreadable.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace fla::perf
