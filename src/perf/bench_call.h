// SPDX-License-Identifier: MIT
// One benchmark cell made runnable: its plans, its tensors, its workspace.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/runtime/buffer.h"
#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "ops/call_tensors.h"
#include "ops/registry.h"
#include "perf/gates.h"
#include "perf/shapes.h"

namespace fla::perf {

enum class Mode : uint8_t { kForward, kBackward, kForwardBackward, kDecode };
/// "fwd", "bwd", "fwdbwd", "decode".
std::string_view mode_name(Mode mode);

/// What is asked for: op x mode x backend x dtype x shape.
struct Cell {
  const ops::OpRow* row = nullptr;
  std::string op;  // benchmark name
  Form form = Form::kChunk;
  Mode mode = Mode::kForward;
  Backend backend = Backend::kCpu;
  DType dtype = DType::kBf16;
  Gates gates = Gates::kRegistry;
  bool state_v_first = false;
  Shape shape;
  std::string varlen;  // set of sequence lengths; empty: dense
  uint64_t seed = 0;

  /// Offsets of the packed sequences; empty when dense.
  std::vector<int64_t> offsets() const;
  /// The descriptor of one pass, with the operator's benchmark flags. Decode passes the states.
  OpDesc desc(Pass pass) const;
};

/// A small cell of the same operator, flags and dtype: at most 2 heads, 2 rows of 81 tokens (a
/// chunk and a tail), K, V and M up to 128 (512 on a GPU), the ratio HV / H kept.
Cell twin_of(const Cell& cell);

/// A cell's plans, and the scratch memory that they share.
class BenchCall {
 public:
  /// Errors: whatever make_plan answers.
  static Result<BenchCall> make(const Cell& cell, const Context& context);

  /// Fresh tensors for one call in host memory, a function of the seed: inputs, outputs, and in
  /// decode one state that is read and written in place.
  Result<ops::CallTensors> tensors(uint64_t seed, bool twin) const;

  /// Runs the plans of the mode in order. Tensors lie where the backend computes.
  Status run(const TensorSet& tensors, Stream stream) const;

  /// Runs once on host tensors, whatever the backend, and waits: copies them to the GPU and back
  /// for cuda.
  Status run_once(const TensorSet& host) const;

  /// What one call touches: every tensor once (tensors() of decode allocates a second state that it
  /// does not use) and the workspace.
  int64_t peak_bytes(const ops::CallTensors& call) const;
  std::string name() const;
  const Cell& cell() const { return cell_; }
  const ops::OpRow& row() const { return *cell_.row; }
  bool has(Pass pass) const;
  ops::Cost cost() const;

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  explicit BenchCall(Cell cell) : cell_(std::move(cell)) {}
  Status allocate_workspace();

  Cell cell_;
  std::vector<int64_t> offsets_;
  std::vector<Plan> plans_;
  size_t workspace_bytes_ = 0;
  std::unique_ptr<void, Free> workspace_;
  cuda::DeviceBuffer device_workspace_;
};

}  // namespace fla::perf
