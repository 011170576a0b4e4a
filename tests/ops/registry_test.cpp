// SPDX-License-Identifier: MIT
// What every row of the registry promises.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "ops/call.h"

namespace fla::ops {
namespace {

TEST(Registry, HoldsEveryOperatorOnce) {
  const std::vector<std::string_view> expected = {"linear_attn",
                                                  "retention",
                                                  "lightning_attn",
                                                  "simple_gla",
                                                  "ssd",
                                                  "gla",
                                                  "rwkv6",
                                                  "hgrn",
                                                  "hgrn2",
                                                  "gsa",
                                                  "delta_rule",
                                                  "gdn",
                                                  "kda",
                                                  "gdn2",
                                                  "comba",
                                                  "gated_delta_product",
                                                  "dplr_delta_rule",
                                                  "iplr_delta_rule",
                                                  "rwkv7",
                                                  "precond_gdn",
                                                  "precond_kda"};
  std::vector<std::string_view> names;
  for (const OpRow& row : registry())
    names.push_back(row.name);
  EXPECT_EQ(names, expected);
}

TEST(Registry, NamesAreUniqueAndFound) {
  std::set<std::string_view> seen;
  for (const OpRow& row : registry()) {
    const auto expect_found = [&](std::string_view name, Form form) {
      EXPECT_TRUE(seen.insert(name).second) << name;
      const Result<Named> found = find_op(name);
      ASSERT_TRUE(found.ok()) << name;
      EXPECT_EQ(found.value().row, &row);
      EXPECT_EQ(found.value().form, form) << name;
    };
    expect_found(row.name, Form::kChunk);
    ASSERT_FALSE(row.chunk_names.empty());
    ASSERT_FALSE(row.recurrent_names.empty());
    for (std::string_view name : row.chunk_names)
      expect_found(name, Form::kChunk);
    for (std::string_view name : row.recurrent_names) {
      EXPECT_TRUE(name.starts_with("fused_recurrent_"));
      expect_found(name, Form::kRecurrent);
    }
  }
}

TEST(Registry, RowsAreComplete) {
  for (const OpRow& row : registry()) {
    EXPECT_FALSE(row.summary.empty() || row.sheet.empty() || row.source.empty()) << row.name;
    EXPECT_GT(row.chunk_fwd_coef[2], 0) << row.name;
    EXPECT_GT(row.chunk_bwd_coef[2], row.chunk_fwd_coef[2]) << row.name;
    EXPECT_GT(row.recurrent_kv_coef, 0) << row.name;
    EXPECT_NE(row.canonical, nullptr) << row.name;
    std::set<std::string> names;
    for (const SlotSpec& spec : row.slots) {
      EXPECT_TRUE(names.insert(std::string(spec.name)).second) << row.name << " " << spec.name;
      if (spec.grad) {
        EXPECT_TRUE(names.insert(grad_name(spec)).second) << row.name << " " << grad_name(spec);
      }
    }
    for (Slot slot : {Slot::kO, Slot::kInitialState, Slot::kFinalState, Slot::kCuSeqlens}) {
      EXPECT_NE(row.find(slot), nullptr) << row.name;
    }
  }
}

TEST(Registry, BenchmarkDescriptorsArePlanned) {
  for (const OpRow& row : registry()) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      OpDesc desc;
      desc.pass = pass;
      desc.T = 64;
      desc.H = 2;
      desc.K = desc.V = 32;
      if (row.benchmark_flags != nullptr)
        row.benchmark_flags(&desc);
      const Status status = check_desc(row, desc);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
}

TEST(Registry, GradientNamesFollowOneRule) {
  const OpRow& row = *find_op("kda").value().row;
  EXPECT_EQ(grad_name(*row.find(Slot::kQ)), "dq");
  EXPECT_EQ(grad_name(*row.find(Slot::kO)), "do");
  EXPECT_EQ(grad_name(*row.find(Slot::kInitialState)), "d_initial_state");
  EXPECT_EQ(grad_name(*row.find(Slot::kFinalState)), "d_final_state");
  for (const SlotSpec& spec : row.slots)
    EXPECT_TRUE(is_grad_name(spec, grad_name(spec)));
  EXPECT_FALSE(is_grad_name(*row.find(Slot::kQ), "dk"));
}

TEST(Registry, StateVFirstSwapsMatrixStatesAlone) {
  OpDesc desc = small_desc(*find_op("gsa").value().row, Pass::kForward);
  desc.state_v_first = true;
  const OpRow& gsa = *find_op("gsa").value().row;
  EXPECT_EQ(slot_shape(*gsa.find(Slot::kInitialState), desc), (std::vector<int64_t>{2, 6, 9, 7}));
  EXPECT_EQ(slot_shape(*gsa.find(Slot::kInitialState2), desc), (std::vector<int64_t>{2, 6, 8, 9}));
  EXPECT_EQ(slot_dims_text(*gsa.find(Slot::kFinalState), desc), "[N,HV,M,K]");
  const OpRow& attn = *find_op("linear_attn").value().row;
  EXPECT_EQ(slot_shape(*attn.find(Slot::kInitialState2), desc), (std::vector<int64_t>{2, 6, 7}));
}

/// Cost of one token and head at K = V = 128.
Cost unit_cost(std::string_view op, Pass pass) {
  OpDesc desc;
  desc.pass = pass;
  desc.T = 1;
  desc.K = desc.V = 128;
  const Named named = find_op(op).value();
  desc.form = named.form;
  if (named.row->benchmark_flags != nullptr)
    named.row->benchmark_flags(&desc);
  return cost(*named.row, desc);
}

TEST(Cost, MatchesTheTablesOfTheSpecification) {
  EXPECT_NEAR(unit_cost("gla", Pass::kForward).flops, 98e3, 500);
  EXPECT_NEAR(unit_cost("gla", Pass::kBackward).flops, 246e3, 500);
  EXPECT_NEAR(unit_cost("kda", Pass::kForward).flops, 165e3, 500);
  EXPECT_NEAR(unit_cost("kda", Pass::kBackward).flops, 426e3, 500);
  EXPECT_NEAR(unit_cost("rwkv7", Pass::kForward).flops, 264e3, 700);
  EXPECT_NEAR(unit_cost("rwkv7", Pass::kBackward).flops, 721e3, 700);
  EXPECT_EQ(unit_cost("fused_recurrent_kda", Pass::kForward).flops, 7.0 * 128 * 128);
  EXPECT_EQ(unit_cost("retention", Pass::kForward).min_bytes, 1024);
  EXPECT_EQ(unit_cost("gla", Pass::kForward).min_bytes, 1280);
  EXPECT_EQ(unit_cost("kda", Pass::kForward).min_bytes, 1282);
}

TEST(Limits, CheckedInPageIsCurrent) {
  std::ifstream file(FLA_LIMITS_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), limits_markdown()) << "run: fla ops --limits > docs/limits.md";
}

TEST(Unsupported, ArgumentsOfFlaAreExplained) {
  for (std::string_view name : {"reverse", "gv", "gk", "return_intermediate_states", "cp_context",
                                "output_attentions", "disable_recompute", "checkpoint_level"}) {
    EXPECT_FALSE(unsupported_reason(name).empty()) << name;
  }
  EXPECT_TRUE(unsupported_reason("q").empty());
}

}  // namespace
}  // namespace fla::ops
