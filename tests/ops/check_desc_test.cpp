// SPDX-License-Identifier: MIT
// Descriptors outside an operator's contract are refused with the field's name.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/call.h"

namespace fla::ops {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view op, const std::function<void(OpDesc*)>& change) {
  const OpRow& row = *find_op(op).value().row;
  OpDesc desc = small_desc(row, Pass::kForward);
  change(&desc);
  const Result<Plan> plan = make_plan(op, desc, ref_context());
  return plan.ok() ? "planned" : std::string(plan.status().message());
}

TEST(CheckDesc, RangesAreNamed) {
  const struct {
    std::function<void(OpDesc*)> change;
    std::string expected;
  } cases[] = {
      {[](OpDesc* d) { d->K = 600; }, "chunk_kda_fwd: K is 600, expected 1 to 512"},
      {[](OpDesc* d) { d->V = 0; }, "chunk_kda_fwd: V is 0, expected 1 to 512"},
      {[](OpDesc* d) { d->T = -1; }, "chunk_kda_fwd: T is -1, expected 0 to 1099511627776"},
      {[](OpDesc* d) { d->B = 0; }, "chunk_kda_fwd: B is 0, expected 1 to 1099511627776"},
      {[](OpDesc* d) { d->H = 0; }, "chunk_kda_fwd: H is 0, expected 1 to 1099511627776"},
      {[](OpDesc* d) { d->HV = 7; }, "chunk_kda_fwd: HV is 7, expected a multiple of H = 3"},
      {[](OpDesc* d) { d->M = 4; }, "chunk_kda_fwd: M is 4, expected 0 (kda has no memory slots)"},
      {[](OpDesc* d) { d->num_householder = 2; },
       "chunk_kda_fwd: num_householder is 2, expected 1 to 1"},
      {[](OpDesc* d) { d->num_layers = 2; }, "chunk_kda_fwd: num_layers is 2, expected 1 to 1"},
      {[](OpDesc* d) { d->normalize = true; },
       "chunk_kda_fwd: normalize is set, expected it unset (kda does not take it)"},
      {[](OpDesc* d) { d->allow_neg_eigval = true; },
       "chunk_kda_fwd: allow_neg_eigval is set without beta_sigmoid, expected both or neither"},
      {[](OpDesc* d) { d->lower_bound = -1; },
       "chunk_kda_fwd: lower_bound is -1, expected 0 unless gate_input is lower_bound"},
      {[](OpDesc* d) { d->gate_input = GateInput::kLog; },
       "chunk_kda_fwd: A_log is given, expected it only with gate_input softplus or lower_bound"},
      {[](OpDesc* d) { d->given.insert(Slot::kP); },
       "chunk_kda_fwd: given holds p, expected slots of kda alone"},
      {[](OpDesc* d) { d->given.insert(Slot::kCuSeqlens); },
       "chunk_kda_fwd: cu_seqlens is given with N = 0, expected N, the number of sequences"},
      {[](OpDesc* d) { d->T = d->B = int64_t{1} << 40; }, "at most 2^50 elements"},
  };
  for (const auto& it : cases)
    EXPECT_THAT(refusal("chunk_kda", it.change), HasSubstr(it.expected));
}

TEST(CheckDesc, LowerBoundMustLieBetweenMinusFiveAndZero) {
  for (float bound : {-5.1F, 0.0F, 1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    const auto with_bound = [bound](OpDesc* d) {
      d->gate_input = GateInput::kLowerBound;
      d->lower_bound = bound;
    };
    EXPECT_THAT(refusal("kda", with_bound), HasSubstr("expected a number in [-5, 0)"));
  }
  const auto smallest = [](OpDesc* d) {
    d->gate_input = GateInput::kLowerBound;
    d->lower_bound = -5.0F;
    d->given.erase(Slot::kALog);
  };
  EXPECT_EQ(refusal("kda", smallest), "planned");
}

TEST(CheckDesc, EveryFlagIsRefusedWhereItIsNotTaken) {
  const struct {
    Flag flag;
    std::string_view name;
    void (*set)(OpDesc*);
  } flags[] = {
      {Flag::kScale, "scale", [](OpDesc* d) { d->scale = 2.0F; }},
      {Flag::kL2Norm, "l2norm_qk", [](OpDesc* d) { d->l2norm_qk = true; }},
      {Flag::kBetaSigmoid, "beta_sigmoid", [](OpDesc* d) { d->beta_sigmoid = true; }},
      {Flag::kSafeGate, "safe_gate", [](OpDesc* d) { d->safe_gate = true; }},
      {Flag::kStateVFirst, "state_v_first", [](OpDesc* d) { d->state_v_first = true; }},
      {Flag::kNormalize, "normalize", [](OpDesc* d) { d->normalize = true; }},
      {Flag::kGateSoftplus, "gate_input", [](OpDesc* d) { d->gate_input = GateInput::kSoftplus; }},
      {Flag::kGva, "HV", [](OpDesc* d) { d->HV = 2 * d->H; }},
  };
  for (const OpRow& row : registry()) {
    for (const auto& it : flags) {
      const bool is_taken = (row.flags & static_cast<uint32_t>(it.flag)) != 0;
      const std::string got = refusal(row.name, it.set);
      if (is_taken) {
        EXPECT_EQ(got, "planned") << row.name;
      } else {
        EXPECT_THAT(got, HasSubstr("_fwd: " + std::string(it.name) + " is")) << row.name;
      }
    }
  }
}

TEST(CheckDesc, RulesOfSingleOperatorsAreNamed) {
  EXPECT_THAT(refusal("simple_gla", [](OpDesc* d) { d->given.insert(Slot::kGGamma); }),
              HasSubstr("g_gamma is given beside g"));
  EXPECT_THAT(refusal("hgrn", [](OpDesc* d) { d->K = 2; }), HasSubstr("K is 2, expected 1 (hgrn"));
  EXPECT_THAT(refusal("gsa", [](OpDesc* d) { d->given.erase(Slot::kInitialState2); }),
              HasSubstr("initial_state and initial_state_v"));
  EXPECT_THAT(refusal("linear_attn", [](OpDesc* d) { d->normalize = false; }),
              HasSubstr("initial_z"));
  EXPECT_THAT(refusal("gdn", [](OpDesc* d) { d->given.erase(Slot::kG); }),
              HasSubstr("g is not given"));
  EXPECT_THAT(refusal("lightning_attn", [](OpDesc* d) { d->layer_idx = 12; }),
              HasSubstr("layer_idx is 12, expected 0 to 11"));
}

TEST(CheckDesc, StatePoolIsForwardAlone) {
  const auto pooled = [](OpDesc* d) {
    d->pass = Pass::kBackward;
    d->num_state_slots = 4;
  };
  EXPECT_EQ(refusal("kda", pooled), "chunk_kda_bwd: num_state_slots is 4, expected 0 in backward");
}

TEST(MakePlan, UnknownNameListsTheNearest) {
  const Result<Plan> plan = make_plan("chunk_kdaa", OpDesc(), Context());
  EXPECT_EQ(plan.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()),
              HasSubstr("unknown operator 'chunk_kdaa', did you mean chunk_kda"));
}

TEST(MakePlan, BenchmarkNameSetsTheForm) {
  const OpDesc desc = small_desc(*find_op("kda").value().row, Pass::kForward);
  EXPECT_EQ(make_plan("fused_recurrent_kda", desc, ref_context()).value().desc().form,
            Form::kRecurrent);
  EXPECT_EQ(make_plan("chunk_kda", desc, ref_context()).value().desc().form, Form::kChunk);
}

TEST(MakePlan, CudaNamesTheOperatorThatHasNoKernel) {
  Context context;
  context.backend = Backend::kCuda;
  const Result<Plan> plan =
      make_plan("kda", small_desc(*find_op("kda").value().row, Pass::kForward), context);
  EXPECT_EQ(plan.status().code(), Code::kNoDevice);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("chunk_kda_fwd"));
}

TEST(MakePlan, DoublePrecisionIsForTheReferenceAlone) {
  OpDesc desc = small_desc(*find_op("kda").value().row, Pass::kForward);
  desc.dtype = DType::kFp64;
  EXPECT_TRUE(make_plan("kda", desc, ref_context()).ok());
  EXPECT_EQ(make_plan("kda", desc, Context()).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace fla::ops
