// SPDX-License-Identifier: MIT
// The CPU modules against ref in fp64, at one thread and at several, and what they refuse.
#include "ops/modules.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "support/module_case.h"
#include "support/tolerance.h"

namespace fla::test {
namespace {

Context cpu_context(int threads) {
  Context context;
  context.backend = Backend::kCpu;
  context.num_threads = threads;
  return context;
}

Context context_of(Backend backend) {
  Context context;
  context.backend = backend;
  return context;
}

class CpuModules : public testing::TestWithParam<ModuleCase> {};

TEST_P(CpuModules, AgreeWithRef) {
  EXPECT_EQ(check_module(GetParam(), DType::kFp32, host_module_backend(cpu_context(2)), false), "");
}

TEST_P(CpuModules, HaveTheSameBitsAtAnyNumberOfThreads) {
  const ModuleCase& c = GetParam();
  const ModuleValues values = make_module_values(c, DType::kFp32);
  const ModuleResult one = run_module(c, values, DType::kFp32, host_module_backend(cpu_context(1)));
  ASSERT_EQ(one.status.message(), "");
  for (const int threads : {2, 3, 7}) {
    const ModuleResult many =
        run_module(c, values, DType::kFp32, host_module_backend(cpu_context(threads)));
    EXPECT_EQ(many.written, one.written) << threads << " threads";
  }
}

TEST_P(CpuModules, GiveEachGradientAloneWithTheSameBits) {
  ModuleCase c = GetParam();
  if (!c.backward)
    return;
  const ModuleValues values = make_module_values(c, DType::kFp32);
  const ModuleBackend backend = host_module_backend(cpu_context(2));
  const ModuleResult all = run_module_pass(c, Pass::kBackward, values, DType::kFp32, backend);
  for (const auto& [key, tensor] : all.written) {
    if (key.part != Part::kDIn)
      continue;
    c.wanted = 1U << static_cast<unsigned>(key.slot);
    const ModuleResult one = run_module_pass(c, Pass::kBackward, values, DType::kFp32, backend);
    EXPECT_EQ(one.status.message(), "");
    EXPECT_EQ(one.damage, "");
    EXPECT_EQ(one.written.at(key), tensor) << module_key_name(c, key);
  }
}

std::string case_name(const testing::TestParamInfo<ModuleCase>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, CpuModules, testing::ValuesIn(all_module_cases()), case_name);

/// The message of a forward pass on `backend` with one value of input `slot` replaced.
std::string refusal(Backend backend, ModuleCase c, size_t slot, size_t index, double value) {
  const DType dtype = backend == Backend::kRef ? DType::kFp64 : DType::kFp32;
  ModuleValues values = make_module_values(c, dtype);
  values.at({Part::kIn, slot}).values.at(index) = value;
  const ModuleResult result =
      run_module_pass(c, Pass::kForward, values, dtype, host_module_backend(context_of(backend)));
  EXPECT_EQ(result.status.code(), Code::kInvalidArgument);
  EXPECT_EQ(result.damage, "");
  return std::string(result.status.message());
}

TEST(ModuleIndices, AreCheckedOnTheCpu) {
  for (const Backend backend : {Backend::kRef, Backend::kCpu}) {
    ModuleCase c;
    c.desc = {.module = Module::kEmbedding, .rows = 4, .width = 2, .out = 10};
    EXPECT_EQ(refusal(backend, c, 0, 3, 10), "ids[3] is 10, expected 0 or more and less than 10");
    EXPECT_EQ(refusal(backend, c, 0, 0, -1), "ids[0] is -1, expected 0 or more and less than 10");
    c.desc.module = Module::kLinearCrossEntropy;
    EXPECT_EQ(refusal(backend, c, 2, 1, 10), "labels[1] is 10, expected less than 10");
    c.desc = {.module = Module::kShortConv,
              .rows = 4,
              .width = 2,
              .taps = 2,
              .sequences = 2,
              .given = 1U << slot::ShortConv::cu_seqlens};
    c.cu_seqlens = {0, 2, 4};
    const size_t ends = slot::ShortConv::cu_seqlens;
    EXPECT_EQ(refusal(backend, c, ends, 0, 1), "cu_seqlens[0] is 1, expected 0");
    EXPECT_EQ(refusal(backend, c, ends, 1, 5),
              "cu_seqlens[2] is 4, expected 5 or more, the entry before");
    EXPECT_EQ(refusal(backend, c, ends, 2, 3), "cu_seqlens[2] is 3, expected 4, the rows");
    using A = slot::Attention;
    c.desc = {.module = Module::kAttention,
              .rows = 4,
              .width = 2,
              .batch = 2,
              .cache_length = 5,
              .given = 1U << A::positions | 1U << A::k_cache | 1U << A::v_cache};
    c.positions = {3, 0};
    EXPECT_EQ(refusal(backend, c, A::positions, 0, 4),
              "positions[0] is 4, expected 0 to 3, which leaves room in the cache");
  }
}

TEST(ModuleChecks, NameTheFieldAndWhatCame) {
  const auto message = [](const ModuleDesc& desc) {
    return std::string(ops::plan_module(desc, cpu_context(1)).status().message());
  };
  EXPECT_EQ(message({.module = Module::kLinear, .rows = 0, .width = 4, .out = 4}),
            "linear: rows is 0, expected 1 or more");
  EXPECT_EQ(message({.module = Module::kLinear, .rows = 2, .width = 4}),
            "linear: out is 0, expected 1 or more");
  EXPECT_EQ(message({.module = Module::kRmsNorm, .rows = 2, .width = 4, .heads = 3}),
            "rms_norm: width is 4, expected a multiple of heads = 3");
  EXPECT_EQ(message({.module = Module::kRotary, .rows = 2, .width = 6, .heads = 2}),
            "rotary: width / heads is 3, expected an even number");
  EXPECT_EQ(message({.module = Module::kRotary, .rows = 5, .width = 4, .batch = 2}),
            "rotary: rows is 5, expected a multiple of batch = 2");
  EXPECT_EQ(
      message({.module = Module::kShortConv, .rows = 2, .width = 4, .taps = 4, .sequences = 1}),
      "short_conv: sequences is 1, expected 0 without cu_seqlens");
  EXPECT_EQ(message({.module = Module::kAttention, .rows = 2, .width = 4, .cache_length = 8}),
            "attention: positions is not given, expected it where cache_length > 0");
  EXPECT_EQ(
      message({.module = Module::kAttention, .rows = 2, .width = 4, .heads = 4, .kv_heads = 3}),
      "attention: kv_heads is 3, expected a divisor of heads = 4");
  EXPECT_EQ(message({.module = Module::kAdd, .dtype = DType::kBf16, .rows = 2, .width = 4}),
            "dtype is bf16, cpu computes modules in fp32");
}

TEST(ModuleChecks, RefuseTensorsThatDoNotFit) {
  const ModuleDesc desc = {.module = Module::kRmsNorm, .rows = 2, .width = 3};
  float data[16] = {};
  ModuleTensors tensors;
  const auto message = [&](Pass pass) {
    return std::string(ops::check_module_tensors(desc, pass, tensors).message());
  };
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return contiguous_view(data, DType::kFp32, {rows, columns});
  };
  EXPECT_EQ(message(Pass::kForward), "rms_norm: x is not given, expected it");
  tensors.in = {matrix(2, 3), matrix(1, 3)};
  tensors.out = {matrix(2, 3)};
  EXPECT_EQ(message(Pass::kForward), "");
  EXPECT_EQ(message(Pass::kBackward), "rms_norm: d_y is not given, expected it");
  tensors.d_out = {matrix(2, 3)};
  EXPECT_EQ(message(Pass::kBackward), "");
  tensors.d_in = {matrix(2, 3)};
  tensors.accumulate = 1;
  EXPECT_EQ(message(Pass::kBackward), "");
  tensors.in[0].stride[0] = 5;
  EXPECT_EQ(message(Pass::kForward), "");
  tensors.in[0].stride[0] = 2;
  EXPECT_EQ(message(Pass::kForward),
            "rms_norm: x is [2,3] (rank 2) with strides [2,1], expected [2,3], columns contiguous");
  tensors.in[0] = matrix(2, 3);
  tensors.in[1] = matrix(3, 1);
  EXPECT_EQ(message(Pass::kForward),
            "rms_norm: weight is [3,1] (rank 2) with strides [1,1], expected [1,3], contiguous");
  tensors.in[1] = matrix(1, 3);
  tensors.in[1].dtype = DType::kBf16;
  EXPECT_EQ(message(Pass::kForward), "rms_norm: weight is bf16, expected fp32");
}

TEST(ModuleChecks, RefuseToAddWhereAModuleOnlyWrites) {
  const ModuleDesc desc = {.module = Module::kSwiGlu, .rows = 2, .width = 3};
  float data[12] = {};
  ModuleTensors tensors;
  tensors.in[0] = tensors.d_in[0] = contiguous_view(data, DType::kFp32, {2, 6});
  tensors.d_out[0] = contiguous_view(data, DType::kFp32, {2, 3});
  EXPECT_TRUE(ops::check_module_tensors(desc, Pass::kBackward, tensors).ok());
  tensors.accumulate = 1;
  EXPECT_EQ(ops::check_module_tensors(desc, Pass::kBackward, tensors).message(),
            "swiglu: d_x is to be added to, expected to be written");
}

/// An AdamW step over arrays of one type, with its views.
template <class T>
struct Arrays {
  explicit Arrays(int64_t n) : count(n), param(at(n)), grad(at(n)), m(at(n)), v(at(n)) {
    for (size_t i = 0; i < param.size(); ++i) {
      param[i] = static_cast<T>(static_cast<float>(Philox(1, 0).normal(i)));
      grad[i] = static_cast<T>(static_cast<float>(Philox(1, 1).normal(i)));
    }
  }
  static size_t at(int64_t n) { return static_cast<size_t>(n); }
  static constexpr DType kType = sizeof(T) == 8 ? DType::kFp64 : DType::kFp32;
  TensorView view(std::vector<T>* data) {
    return contiguous_view(data->data(), kType, {static_cast<int64_t>(data->size())});
  }
  /// The norm of the gradient, then step `t` with a norm of at most 5.
  void step(const Context& context, int t) {
    std::vector<std::byte> workspace(ops::grad_norm_bytes(count));
    ASSERT_TRUE(ops::grad_norm(view(&grad), view(&norm), {workspace.data(), workspace.size()},
                               context, Stream(nullptr))
                    .ok());
    schedule = {static_cast<T>(1e-2F), static_cast<T>(1 - std::pow(0.9F, static_cast<float>(t))),
                static_cast<T>(1 - std::pow(0.95F, static_cast<float>(t)))};
    AdamWStep s;
    s.count = count;
    s.param = view(&param);
    s.grad = view(&grad);
    s.m = view(&m);
    s.v = view(&v);
    s.schedule = view(&schedule);
    s.norm = view(&norm);
    s.max_norm = 5;
    ASSERT_TRUE(ops::adamw(s, context, Stream(nullptr)).ok());
  }

  int64_t count;
  std::vector<T> param, grad, m, v, schedule, norm = std::vector<T>(1);
};

TEST(Optimizer, FirstStepMovesByTheRateAgainstTheSign) {
  Arrays<double> arrays(3);
  arrays.param = {1, -2, 4};
  arrays.grad = {3, -4, 12};  // norm 13, scaled by 5 / 13
  arrays.step(context_of(Backend::kRef), 1);
  EXPECT_EQ(arrays.norm[0], 13);
  const double rate = 1e-2F, decay = 0.1F;
  const double want[] = {1 - rate * decay * 1 - rate, -2 + rate * decay * 2 + rate,
                         4 - rate * decay * 4 - rate};
  const double beta1 = 0.9F;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(arrays.param[i], want[i], 1e-8);
    EXPECT_NEAR(arrays.m[i], (1 - beta1) * arrays.grad[i] * 5 / 13, 1e-15);
  }
}

TEST(Optimizer, OfTheCpuFollowsRefWithTheSameBitsAtAnyNumberOfThreads) {
  Arrays<double> ref(1001);
  Arrays<float> one(1001), many(1001);
  for (int t = 1; t <= 4; ++t) {
    ref.step(context_of(Backend::kRef), t);
    one.step(cpu_context(1), t);
    many.step(cpu_context(3), t);
  }
  EXPECT_EQ(one.param, many.param);
  EXPECT_EQ(one.norm, many.norm);
  for (size_t i = 0; i < ref.param.size(); ++i)
    EXPECT_NEAR(one.param[i], ref.param[i], kOptimizerLimit * (1 + std::abs(ref.param[i])));
  EXPECT_NEAR(one.norm[0], ref.norm[0], kOptimizerLimit * ref.norm[0]);
}

}  // namespace
}  // namespace fla::test
