// SPDX-License-Identifier: MIT
// Plan and run: the one door to every operator and backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fla/op.h"
#include "fla/status.h"

namespace fla {

/// Who computes. kAuto takes cuda where a device and a kernel exist, otherwise cpu.
enum class Backend : int32_t { kAuto = 0, kRef = 1, kCpu = 2, kCuda = 3 };

std::string_view backend_name(Backend backend);

/// What a plan may use. Passed explicitly; the library has no global state.
struct Context {
  Backend backend = Backend::kAuto;
  Device device;
  int num_threads = 0;  // CPU threads; 0 means all that OpenMP offers
  bool check_inputs =
      false;  // device cu_seqlens: synchronise and check the values (on the CPU they always are)
  std::string
      cpu_target;  // "" (best), "scalar", "avx2", "avx3": which SIMD code the cpu backend runs
};

/// The caller's scratch memory: 256-byte aligned, content undefined before and after.
struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};

/// A CUDA stream, opaque here. On the CPU it is ignored. There is no default value on purpose.
class Stream {
 public:
  explicit Stream(void* handle) : handle_(handle) {}
  void* handle() const { return handle_; }

 private:
  void* handle_;
};

class PlanImpl;

/// A checked, ready-to-run call of one operator. Immutable; movable; usable from several threads at
/// once with separate workspaces.
class Plan {
 public:
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  /// Scratch that run() needs, in bytes: a function of the descriptor and the context alone,
  /// monotone in T and N.
  size_t workspace_bytes() const;
  /// The row key of reports, such as "cpu.chunk_delta_fwd.vector".
  std::string_view name() const;
  const OpDesc& desc() const;

  /// Computes. Writes every output (all rows, all heads) or, when the Status is not ok, nothing.
  /// Allocates nothing after the first call, starts no device synchronisation. Errors:
  /// kInvalidArgument for a tensor that is missing, of the wrong shape, dtype, device or stride,
  /// for outputs that overlap, and (on the CPU) for bad cu_seqlens; kWorkspaceTooSmall.
  Status run(const TensorSet& tensors, Workspace workspace, Stream stream) const;

 private:
  friend Result<Plan> make_plan(std::string_view, const OpDesc&, const Context&);
  struct State;
  explicit Plan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Plans operator `op` (a registry name such as "kda", or a benchmark name such as "chunk_kda" or
/// "fused_recurrent_gdn", which also sets desc.form). Errors: kInvalidArgument (unknown name with
/// the nearest ones, a dimension or flag outside the operator's contract), kUnsupported, kNoDevice.
Result<Plan> make_plan(std::string_view op, const OpDesc& desc, const Context& context);

}  // namespace fla
