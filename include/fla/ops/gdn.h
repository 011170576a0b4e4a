// SPDX-License-Identifier: MIT
// GDN, the gated delta rule, with names and types of its own: a thin view of
// make_plan("chunk_gdn", ...).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla {

/// Shapes and switches of a GDN call, shared by forward and backward.
struct GdnDesc {
  int64_t B = 1, T = 0, H = 1;
  int64_t HV = 0;  // 0 means H
  int64_t K = 0, V = 0;
  int64_t N = 0;  // packed sequences, with B = 1; 0 means dense
  DType dtype = DType::kBf16;
  bool has_g = true;                          // false: no decay
  GateInput gate_input = GateInput::kLog;     // kSoftplus: g is raw, A_log is given
  std::optional<float> scale = std::nullopt;  // none means K^-1/2
  bool l2norm_qk = false, beta_sigmoid = false, allow_neg_eigval = false, has_dt_bias = false;
  bool has_initial_state = false, has_final_state = false, state_v_first = false;
};

struct GdnFwdTensors {
  // read
  TensorView q{}, k{}, v{}, g{}, beta{}, A_log{}, dt_bias{}, initial_state{}, cu_seqlens{};
  // written
  TensorView o{}, final_state{};
};

/// `d_o` is the gradient of o. A gradient left null is not written; a null d_final_state is zero.
struct GdnBwdTensors {
  // read
  TensorView q{}, k{}, v{}, g{}, beta{}, A_log{}, dt_bias{}, initial_state{}, cu_seqlens{};
  TensorView d_o{}, d_final_state{};
  // written
  TensorView dq{}, dk{}, dv{}, dg{}, dbeta{}, dA_log{}, d_dt_bias{}, d_initial_state{};
};

/// Computes S_t = e^{g_t} S_{t-1} + beta_t k_t (v_t - (e^{g_t} S_{t-1})^T k_t)^T and o_t = scale
/// S_t^T q_t. Formula: math.md 6.10. Source: Gated DeltaNet, 2024.
///   Shapes   q,k [B,T,H,K]; v,o [B,T,HV,V]; g, beta [B,T,HV]; A_log, dt_bias [HV];
///            states [N,HV,K,V] (N = B when dense), [N,HV,V,K] with state_v_first;
///            cu_seqlens [N+1]
///   Dtypes   q k v o: dtype (bf16, fp16, fp32); g beta: dtype or fp32;
///            A_log dt_bias: bf16 or fp32; states: fp32; cu_seqlens: int32 or int64
///   Units    g natural log, <= 0 (with gate_input kLog); scale dimensionless
///   Writes   o (all), final_state if has_final_state; workspace content undefined after
///   Order    CPU: done on return; allocates nothing after the first call; deterministic: yes
///   Errors   kInvalidArgument for a tensor that breaks the shapes above; kWorkspaceTooSmall
///   Limits   K, V 1 to 512; HV a multiple of H; last stride 1; outputs overlap nothing, but
///            final_state may be initial_state
class GdnFwdPlan {
 public:
  explicit GdnFwdPlan(Plan plan) : plan_(std::move(plan)) {}
  size_t workspace_bytes() const { return plan_.workspace_bytes(); }
  std::string_view name() const { return plan_.name(); }
  Status run(const GdnFwdTensors& tensors, Workspace workspace, Stream stream) const;

 private:
  Plan plan_;
};

/// The gradients of GdnFwdPlan's inputs, recomputed from the inputs. Formula: math.md 3.4, 3.6, 5.
///   Shapes   every gradient as its tensor
///   Dtypes   every gradient as its tensor; d_initial_state: fp32
///   Writes   the gradients that are not null; workspace content undefined after
///   Order, Errors, Limits   as forward; gradients overlap nothing
class GdnBwdPlan {
 public:
  explicit GdnBwdPlan(Plan plan) : plan_(std::move(plan)) {}
  size_t workspace_bytes() const { return plan_.workspace_bytes(); }
  std::string_view name() const { return plan_.name(); }
  Status run(const GdnBwdTensors& tensors, Workspace workspace, Stream stream) const;

 private:
  Plan plan_;
};

/// Errors: kInvalidArgument (a dimension or switch outside the contract), kUnsupported, kNoDevice.
Result<GdnFwdPlan> plan_chunk_gdn_fwd(const GdnDesc& desc, const Context& context);
Result<GdnBwdPlan> plan_chunk_gdn_bwd(const GdnDesc& desc, const Context& context);
/// The same function token by token: for decode, T small.
Result<GdnFwdPlan> plan_fused_recurrent_gdn_fwd(const GdnDesc& desc, const Context& context);

}  // namespace fla
