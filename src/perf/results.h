// SPDX-License-Identifier: MIT
// What a benchmark run found, and its forms: the table, fla.results/1 JSON, Markdown, CSV.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/status.h"
#include "perf/hardware/hardware.h"
#include "perf/machine.h"

namespace fla::perf {

/// Measured ceilings. A value that could not be had is none and its reason says why.
struct Peaks {
  int threads = 0;
  std::optional<double> copy_bytes_per_s;  // read plus written
  std::string copy_reason;
  std::optional<double> flops_per_s;  // matrix product: fp32 on the CPU, bf16 on a GPU
  std::string flops_reason;
  std::string blas_core;  // what computed the product: OpenBLAS's core, or cuBLASLt's version
};

/// The GPU of a run and what it reaches.
struct Gpu {
  std::string name;
  std::string driver;          // empty: unknown
  int compute_capability = 0;  // 90 for sm_90
  int num_sms = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
  std::string pci_bus_id;  // not written
  std::optional<int64_t> max_sm_mhz;
  Peaks peaks;
  std::optional<double> node_s;  // a node of a graph that copies 16 bytes
};

/// Samples that were taken in one go.
struct Block {
  int64_t round = 0;
  double median_s = 0;
  double q1_s = 0;
  double q3_s = 0;
  double min_s = 0;
  double p95_s = 0;
  int64_t n = 0;
};

enum class RowStatus { kOk, kFailed, kSkipped, kUnavailable };
std::string_view row_status_name(RowStatus status);

/// One measured cell: op x mode x backend x dtype x shape.
struct ResultRow {
  std::string op;  // benchmark name, "chunk_kda"
  std::string mode;
  std::string backend;
  std::string dtype;
  std::string gates = "registry";       // family of the log decays
  std::string shape;                    // its name
  std::string coverage = "dense";       // or "varlen:ragged"
  std::map<std::string, int64_t> axes;  // every axis: B, H, HV, K, T, V and, for gsa, M
  std::vector<int64_t> cu_seqlens;      // empty when dense
  std::string cu_seqlens_digest;
  std::string plan;  // Plan::name()
  std::string
      workload_digest;  // of everything that decides the work, inputs included; empty: unknown

  RowStatus status = RowStatus::kSkipped;
  std::string reason;  // why status is not ok
  bool wrong = false;  // failed because a result was wrong, not for lack of something; not written
  std::vector<Block> blocks;
  int64_t rotation = 0;           // input sets that took turns
  std::string timer = "clock";    // or "events", or "graph": replay of a graph over every input set
  std::optional<int64_t> sm_mhz;  // of the GPU, right after the last sample
  int64_t tokens = 0;
  std::optional<double> median_s;
  std::optional<std::pair<double, double>> ci95_s;
  std::optional<int64_t> peak_bytes;  // tensors of a call plus its workspace
  double min_bytes = 0;               // by formula
  double flops = 0;
  std::map<std::string, double> figures;  // what a row has beside its time, such as a loss
  std::optional<double> rel_error;        // of the checked twin, the largest over its tensors
  std::vector<std::string> flags;
  std::map<std::string, std::string> null_reasons;  // JSON field to why it is null

  /// "chunk_kda|fwd|cpu|bf16|B=1,H=8,...|dense", and "|slow" for other gates than the registry's.
  std::string key() const;
};

/// Figures that follow from a row and the ceilings; none where undefined (division by zero
/// included).
struct Derived {
  std::optional<double> tokens_per_s;
  std::optional<double> bandwidth_fraction;  // min_bytes over time, of the measured copy
  std::optional<double> compute_fraction;    // flops over time, of the measured product
  std::optional<double> floor_s;             // math: the slower of bytes and flops at the ceilings
  std::optional<double> x_over_floor;
};
Derived derive(const ResultRow& row, const Peaks& peaks);

struct Results {
  std::string kind = "bench";  // or "quick"
  std::string created;         // UTC, ISO 8601
  std::string version;
  std::string commit;  // "unknown" without git
  bool dirty = false;
  std::vector<std::string> argv;
  uint64_t seed = 0;
  int threads = 0;
  std::string simd_target;
  std::string cache = "cold";
  Machine machine;
  Peaks peaks;                   // of the CPU
  std::optional<Gpu> gpu;        // where a row of the run is on one
  std::optional<Hardware> card;  // the same one, as the classifier sees it
  std::string boot_id;           // of the machine; empty: unknown
  std::vector<ResultRow> rows;

  /// The card's id; "gpu:..." where a file of an older fla has no card, "cpu:..." where no row is
  /// on a GPU.
  std::string hardware_id() const;

  /// The ceilings of the device that a row ran on.
  const Peaks& peaks_of(const ResultRow& row) const {
    return gpu && row.backend == "cuda" ? gpu->peaks : peaks;
  }
};

/// The table's head lines and cells.
std::string header_text(const Results& results);
std::vector<std::vector<std::string>> table_cells(const Results& results);
/// Head lines, aligned table, and a line per row that is not ok.
std::string to_text(const Results& results);
std::string to_markdown(const Results& results);
/// One line a row after the line of names; an undefined value is an empty cell.
std::string to_csv(const Results& results);
/// Strict JSON, schema fla.results/1: an undefined value is null and the row says why.
std::string to_json(const Results& results);

/// Reads fla.results/1. Unknown keys are ignored. Errors: kIo for text that is not such a document
/// or carries a newer major version.
Result<Results> read_results(std::string_view text);

}  // namespace fla::perf
