// SPDX-License-Identifier: MIT
// The C ABI: the same results as C++, every error a code with a message.
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fla/fla.h"
#include "ops/call.h"

namespace fla::ops {
namespace {

using ::testing::HasSubstr;

fla_desc c_desc(const OpDesc& desc) {
  fla_desc result;
  fla_desc_init(&result);
  result.pass = static_cast<int32_t>(desc.pass);
  result.form = static_cast<int32_t>(desc.form);
  result.dtype = static_cast<int32_t>(desc.dtype);
  result.gate_input = static_cast<int32_t>(desc.gate_input);
  result.B = desc.B;
  result.T = desc.T;
  result.H = desc.H;
  result.HV = desc.HV;
  result.K = desc.K;
  result.V = desc.V;
  result.N = desc.N;
  result.M = desc.M;
  result.num_householder = desc.num_householder;
  result.num_state_slots = desc.num_state_slots;
  result.layer_idx = desc.layer_idx;
  result.num_layers = desc.num_layers;
  result.l2norm_qk = desc.l2norm_qk;
  result.safe_gate = desc.safe_gate;
  result.normalize = desc.normalize;
  return result;
}

std::string given_text(const OpRow& row, const OpDesc& desc) {
  std::string text;
  for (const SlotSpec& spec : row.slots) {
    if (spec.optional && desc.given.has(spec.slot))
      text += " " + std::string(spec.name) + " ";
  }
  return text;
}

/// A call of `row` as C sees it.
struct CCall {
  explicit CCall(const OpRow& op, Pass pass, int32_t backend = FLA_BACKEND_REF)
      : row(op), desc(small_desc(row, pass)), given(given_text(row, desc)), raw(c_desc(desc)) {
    raw.given = given.c_str();
    fla_context_init(&context);
    context.backend = backend;
    code = fla_plan_create(std::string(row.name).c_str(), &raw, &context, &plan);
    call = std::move(make_call(row, desc, 1, true).value());
    for (const Argument& arg : arguments(row, desc))
      names.push_back(arg.name());
    size_t i = 0;
    for (const Argument& arg : arguments(row, desc))
      add(names[i++], arg.view(&call.tensors));
  }
  CCall(const CCall&) = delete;
  CCall& operator=(const CCall&) = delete;
  ~CCall() { fla_plan_destroy(plan); }

  void add(const std::string& name, const TensorView& view) {
    fla_tensor tensor = {};
    tensor.struct_size = sizeof(fla_tensor);
    tensor.name = name.c_str();
    tensor.data = view.data;
    tensor.dtype = static_cast<int32_t>(view.dtype);
    tensor.rank = view.rank;
    std::copy(view.shape.begin(), view.shape.end(), tensor.shape);
    std::copy(view.stride.begin(), view.stride.end(), tensor.stride);
    tensors.push_back(tensor);
  }

  int32_t run() {
    Scratch scratch(fla_plan_workspace_bytes(plan));
    const Workspace workspace = scratch.workspace();
    return fla_plan_run(plan, tensors.data(), tensors.size(), workspace.data, workspace.bytes,
                        nullptr);
  }

  const OpRow& row;
  OpDesc desc;
  std::string given;
  fla_desc raw;
  fla_context context{};
  fla_plan* plan = nullptr;
  int32_t code = FLA_INTERNAL;
  CallTensors call;
  std::vector<std::string> names;
  std::vector<fla_tensor> tensors;
};

const OpRow& row_of(std::string_view name) {
  return *find_op(name).value().row;
}

TEST(CApi, TellsItsVersionAndSizes) {
  EXPECT_EQ(fla_abi_version(), FLA_ABI_VERSION);
  EXPECT_STRNE(fla_version(), "");
  EXPECT_EQ(fla_sizeof(FLA_SIZEOF_DESC), sizeof(fla_desc));
  EXPECT_EQ(fla_sizeof(FLA_SIZEOF_CONTEXT), sizeof(fla_context));
  EXPECT_EQ(fla_sizeof(FLA_SIZEOF_TENSOR), sizeof(fla_tensor));
  EXPECT_EQ(fla_sizeof(99), 0U);
}

TEST(CApi, ListsTheRegistry) {
  ASSERT_EQ(fla_num_ops(), static_cast<int32_t>(registry().size()));
  for (int32_t i = 0; i < fla_num_ops(); ++i) {
    EXPECT_EQ(fla_op_name(i), registry()[static_cast<size_t>(i)].name);
  }
  EXPECT_EQ(fla_op_name(-1), nullptr);
  EXPECT_EQ(fla_op_name(fla_num_ops()), nullptr);
}

TEST(CApi, EveryOperatorComputesWhatCppComputes) {
  for (const OpRow& row : registry()) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      CCall c(row, pass);
      ASSERT_EQ(c.code, FLA_OK) << fla_last_message();
      ASSERT_EQ(c.run(), FLA_OK) << fla_last_message();
      const CallTensors expected = std::move(make_call(row, c.desc, 1, true).value());
      const Plan plan = std::move(make_plan(row.name, c.desc, ref_context()).value());
      Scratch scratch(plan.workspace_bytes());
      ASSERT_TRUE(plan.run(expected.tensors, scratch.workspace(), Stream(nullptr)).ok());
      TensorSet cpp_tensors = expected.tensors;
      for (const Argument& arg : arguments(row, c.desc)) {
        const TensorView& view = arg.view(&cpp_tensors);
        const size_t bytes = static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype);
        EXPECT_EQ(std::memcmp(arg.view(&c.call.tensors).data, view.data, bytes), 0)
            << row.name << " " << arg.name();
      }
    }
  }
}

TEST(CApi, NullsAndStructSizesAreRefused) {
  fla_desc desc;
  fla_desc_init(&desc);
  fla_plan* plan = nullptr;
  EXPECT_EQ(fla_plan_create(nullptr, &desc, nullptr, &plan), FLA_INVALID_ARGUMENT);
  EXPECT_EQ(fla_plan_create("kda", nullptr, nullptr, &plan), FLA_INVALID_ARGUMENT);
  EXPECT_EQ(fla_plan_create("kda", &desc, nullptr, nullptr), FLA_INVALID_ARGUMENT);
  desc.struct_size = 8;
  plan = reinterpret_cast<fla_plan*>(&desc);
  EXPECT_EQ(fla_plan_create("kda", &desc, nullptr, &plan), FLA_INVALID_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
  EXPECT_THAT(fla_last_message(), HasSubstr("fla_desc.struct_size is 8"));
  EXPECT_EQ(fla_plan_run(nullptr, nullptr, 0, nullptr, 0, nullptr), FLA_INVALID_ARGUMENT);
  EXPECT_EQ(fla_plan_workspace_bytes(nullptr), 0U);
  EXPECT_EQ(fla_plan_name(nullptr), nullptr);
  fla_plan_destroy(nullptr);
  fla_desc_init(nullptr);
  fla_context_init(nullptr);
}

TEST(CApi, NamesInGivenAreChecked) {
  fla_desc desc;
  fla_desc_init(&desc);
  desc.T = desc.K = desc.V = 4;
  fla_plan* plan = nullptr;
  desc.given = "final_stat";
  EXPECT_EQ(fla_plan_create("kda", &desc, nullptr, &plan), FLA_INVALID_ARGUMENT);
  EXPECT_THAT(fla_last_message(),
              HasSubstr("kda: unknown name in given 'final_stat', did you mean final_state"));
  for (const char* name : {"reverse", "gv", "cp_context", "checkpoint_level"}) {
    desc.given = name;
    EXPECT_EQ(fla_plan_create("kda", &desc, nullptr, &plan), FLA_INVALID_ARGUMENT);
    EXPECT_THAT(fla_last_message(), HasSubstr(std::string(name) + " is not supported: "));
  }
}

TEST(CApi, TensorNamesAreChecked) {
  CCall c(row_of("kda"), Pass::kForward);
  ASSERT_EQ(c.code, FLA_OK) << fla_last_message();
  const auto expect_refused = [&c](const char* name, const std::string& text) {
    c.tensors.push_back(c.tensors[0]);
    c.tensors.back().name = name;
    EXPECT_EQ(c.run(), FLA_INVALID_ARGUMENT);
    EXPECT_THAT(fla_last_message(), HasSubstr(text));
    c.tensors.pop_back();
  };
  expect_refused("initial_stat", "kda: unknown tensor 'initial_stat', did you mean initial_state");
  expect_refused("gv", "kda: gv is not supported: ");
  expect_refused("q", "kda: q is passed twice");
  expect_refused(nullptr, "name is null");
  c.tensors[0].rank = 6;
  EXPECT_EQ(c.run(), FLA_INVALID_ARGUMENT);
  EXPECT_THAT(fla_last_message(), HasSubstr("q has rank 6"));
  c.tensors[0].rank = 4;
  c.tensors[0].struct_size = 0;
  EXPECT_EQ(c.run(), FLA_INVALID_ARGUMENT);
  c.tensors[0].struct_size = sizeof(fla_tensor);
  EXPECT_TRUE(outputs_untouched(arguments(c.row, c.desc), c.call.tensors));
  EXPECT_EQ(c.run(), FLA_OK) << fla_last_message();
}

TEST(CApi, UnknownOperatorAndDeviceAreRefused) {
  fla_desc desc;
  fla_desc_init(&desc);
  desc.T = desc.K = desc.V = 4;
  fla_plan* plan = nullptr;
  EXPECT_EQ(fla_plan_create("kdb", &desc, nullptr, &plan), FLA_INVALID_ARGUMENT);
  EXPECT_THAT(fla_last_message(), HasSubstr("did you mean kda"));
  fla_context context;
  fla_context_init(&context);
  context.backend = FLA_BACKEND_CUDA;
  EXPECT_EQ(fla_plan_create("kda", &desc, &context, &plan), FLA_NO_DEVICE);
  context.backend = 7;
  EXPECT_EQ(fla_plan_create("kda", &desc, &context, &plan), FLA_INVALID_ARGUMENT);
}

TEST(CApi, MessagesBelongToTheirThread) {
  fla_desc desc;
  fla_desc_init(&desc);
  fla_plan* plan = nullptr;
  ASSERT_EQ(fla_plan_create("nothing", &desc, nullptr, &plan), FLA_INVALID_ARGUMENT);
  std::string elsewhere = "unset";
  std::thread([&elsewhere] { elsewhere = fla_last_message(); }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_THAT(fla_last_message(), HasSubstr("nothing"));
}

}  // namespace
}  // namespace fla::ops
