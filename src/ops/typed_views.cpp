// SPDX-License-Identifier: MIT
// The typed views of fla/ops/*.h: field by field onto OpDesc and TensorSet.
#include <string_view>
#include <utility>

#include "fla/ops/gdn.h"
#include "fla/ops/kda.h"

namespace fla {
namespace {

/// The fields that the typed descriptors share.
template <class Desc>
OpDesc generic_desc(const Desc& desc, Pass pass) {
  OpDesc generic;
  generic.pass = pass;
  generic.B = desc.B;
  generic.T = desc.T;
  generic.H = desc.H;
  generic.HV = desc.HV;
  generic.K = desc.K;
  generic.V = desc.V;
  generic.N = desc.N;
  generic.dtype = desc.dtype;
  generic.gate_input = desc.gate_input;
  generic.scale = desc.scale;
  generic.l2norm_qk = desc.l2norm_qk;
  generic.beta_sigmoid = desc.beta_sigmoid;
  generic.allow_neg_eigval = desc.allow_neg_eigval;
  generic.state_v_first = desc.state_v_first;
  if (desc.has_dt_bias)
    generic.given.insert(Slot::kDtBias);
  if (desc.has_initial_state)
    generic.given.insert(Slot::kInitialState);
  if (desc.has_final_state)
    generic.given.insert(Slot::kFinalState);
  return generic;
}

OpDesc kda_desc(const KdaDesc& desc, Pass pass) {
  OpDesc generic = generic_desc(desc, pass);
  generic.safe_gate = desc.safe_gate;
  generic.lower_bound = desc.lower_bound;
  if (desc.has_A_log)
    generic.given.insert(Slot::kALog);
  return generic;
}

OpDesc gdn_desc(const GdnDesc& desc, Pass pass) {
  OpDesc generic = generic_desc(desc, pass);
  if (desc.has_g)
    generic.given.insert(Slot::kG);
  return generic;
}

/// The tensors that forward and backward read.
template <class Tensors>
TensorSet inputs(const Tensors& tensors) {
  TensorSet set;
  set[Slot::kQ] = tensors.q;
  set[Slot::kK] = tensors.k;
  set[Slot::kV] = tensors.v;
  set[Slot::kG] = tensors.g;
  set[Slot::kBeta] = tensors.beta;
  set[Slot::kALog] = tensors.A_log;
  set[Slot::kDtBias] = tensors.dt_bias;
  set[Slot::kInitialState] = tensors.initial_state;
  set[Slot::kCuSeqlens] = tensors.cu_seqlens;
  return set;
}

template <class Tensors>
TensorSet forward_set(const Tensors& tensors) {
  TensorSet set = inputs(tensors);
  set[Slot::kO] = tensors.o;
  set[Slot::kFinalState] = tensors.final_state;
  return set;
}

template <class Tensors>
TensorSet backward_set(const Tensors& tensors) {
  TensorSet set = inputs(tensors);
  set.grad(Slot::kO) = tensors.d_o;
  set.grad(Slot::kFinalState) = tensors.d_final_state;
  set.grad(Slot::kQ) = tensors.dq;
  set.grad(Slot::kK) = tensors.dk;
  set.grad(Slot::kV) = tensors.dv;
  set.grad(Slot::kG) = tensors.dg;
  set.grad(Slot::kBeta) = tensors.dbeta;
  set.grad(Slot::kALog) = tensors.dA_log;
  set.grad(Slot::kDtBias) = tensors.d_dt_bias;
  set.grad(Slot::kInitialState) = tensors.d_initial_state;
  return set;
}

template <class Typed>
Result<Typed> typed_plan(std::string_view name, const OpDesc& desc, const Context& context) {
  Result<Plan> plan = make_plan(name, desc, context);
  if (!plan.ok())
    return plan.status();
  return Typed(std::move(plan.value()));
}

}  // namespace

Status KdaFwdPlan::run(const KdaFwdTensors& tensors, Workspace workspace, Stream stream) const {
  return plan_.run(forward_set(tensors), workspace, stream);
}

Status KdaBwdPlan::run(const KdaBwdTensors& tensors, Workspace workspace, Stream stream) const {
  return plan_.run(backward_set(tensors), workspace, stream);
}

Status GdnFwdPlan::run(const GdnFwdTensors& tensors, Workspace workspace, Stream stream) const {
  return plan_.run(forward_set(tensors), workspace, stream);
}

Status GdnBwdPlan::run(const GdnBwdTensors& tensors, Workspace workspace, Stream stream) const {
  return plan_.run(backward_set(tensors), workspace, stream);
}

Result<KdaFwdPlan> plan_chunk_kda_fwd(const KdaDesc& desc, const Context& context) {
  return typed_plan<KdaFwdPlan>("chunk_kda", kda_desc(desc, Pass::kForward), context);
}

Result<KdaBwdPlan> plan_chunk_kda_bwd(const KdaDesc& desc, const Context& context) {
  return typed_plan<KdaBwdPlan>("chunk_kda", kda_desc(desc, Pass::kBackward), context);
}

Result<KdaFwdPlan> plan_fused_recurrent_kda_fwd(const KdaDesc& desc, const Context& context) {
  return typed_plan<KdaFwdPlan>("fused_recurrent_kda", kda_desc(desc, Pass::kForward), context);
}

Result<GdnFwdPlan> plan_chunk_gdn_fwd(const GdnDesc& desc, const Context& context) {
  return typed_plan<GdnFwdPlan>("chunk_gdn", gdn_desc(desc, Pass::kForward), context);
}

Result<GdnBwdPlan> plan_chunk_gdn_bwd(const GdnDesc& desc, const Context& context) {
  return typed_plan<GdnBwdPlan>("chunk_gdn", gdn_desc(desc, Pass::kBackward), context);
}

Result<GdnFwdPlan> plan_fused_recurrent_gdn_fwd(const GdnDesc& desc, const Context& context) {
  return typed_plan<GdnFwdPlan>("fused_recurrent_gdn", gdn_desc(desc, Pass::kForward), context);
}

}  // namespace fla
