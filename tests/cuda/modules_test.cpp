// SPDX-License-Identifier: MIT
// The CUDA modules: every module case against ref, in plain and in captured runs, with the same
// bits each time; the optimizer; index arrays that are wrong.
#include "ops/modules.h"

#include <cmath>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/stream.h"
#include "support/guarded_buffer.h"
#include "support/host_tensor.h"
#include "support/module_case.h"
#include "support/tolerance.h"

namespace fla::test {
namespace {

constexpr DType kDtypes[] = {DType::kBf16, DType::kFp32};

Context cuda_context() {
  Context context;
  context.backend = Backend::kCuda;
  context.device = {DeviceType::kCuda, 0};
  return context;
}

void require(const Status& status) {
  if (!status.ok())
    throw std::runtime_error(std::string(status.message()));
}

template <class T>
T taken(Result<T> result) {
  require(result.status());
  return std::move(result.value());
}

/// Guarded host memory with its copy on the device.
class Mirror {
 public:
  explicit Mirror(GuardedBuffer& host)
      : host_(&host), device_(taken(cuda::DeviceBuffer::create(host.memory_bytes()))) {
    require(device_.upload(host_->memory(), host_->memory_bytes()));
  }
  void* address_of(const void* host) const {
    return static_cast<std::byte*>(device_.data()) +
           (static_cast<const std::byte*>(host) - host_->memory());
  }
  void fetch() const { require(device_.download(host_->memory(), host_->memory_bytes())); }

 private:
  GuardedBuffer* host_;
  cuda::DeviceBuffer device_;
};

Status run_on(const ModulePlan& plan, const ModuleCall& call, const ModuleTensors& views,
              Workspace workspace, bool captured) {
  const cuda::OwnedStream stream = taken(cuda::OwnedStream::create());
  const auto work = [&] { return plan.run(call.pass, views, workspace, stream.get()); };
  Status status;
  if (captured) {
    Result<cuda::GraphExec> graph = cuda::GraphExec::capture(stream.get(), work);
    status = graph.ok() ? graph.value().launch(stream.get()) : graph.status();
  } else {
    status = work();
  }
  return status.ok() ? stream.synchronize() : status;
}

/// Runs calls on the GPU in copies of their guarded memory.
ModuleBackend gpu_backend(bool captured) {
  return [captured](ModuleCall& call) -> Status {
    const auto plan = ops::plan_module(call.desc, cuda_context());
    if (!plan.ok())
      return plan.status();
    std::list<Mirror> mirrors;
    ModuleTensors views = call.views([&](PlacedTensor& placed) {
      return mirrors.emplace_back(placed.buffer()).address_of(placed.view().data);
    });
    Status status = ops::check_module_tensors(call.desc, call.pass, views);
    if (!status.ok())
      return status;
    GuardedBuffer workspace(plan.value()->workspace_bytes(call.pass), Poison::kNan,
                            Poison::kPattern);
    const Mirror scratch(workspace);
    status = run_on(*plan.value(), call, views,
                    {scratch.address_of(workspace.data()), workspace.bytes()}, captured);
    if (!status.ok())
      return status;
    for (const Mirror& mirror : mirrors)
      mirror.fetch();
    scratch.fetch();
    if (!workspace.bands_intact())
      return {Code::kInternal, "written outside the workspace"};
    return status;
  };
}

class CudaModules : public testing::TestWithParam<ModuleCase> {};

TEST_P(CudaModules, AgreeWithRef) {
  for (const DType dtype : kDtypes)
    EXPECT_EQ(check_module(GetParam(), dtype, gpu_backend(false), true), "") << dtype_name(dtype);
}

TEST_P(CudaModules, GiveTheSameBitsAgainAndInAGraph) {
  for (const DType dtype : kDtypes) {
    const ModuleValues values = make_module_values(GetParam(), dtype);
    const ModuleResult first = run_module(GetParam(), values, dtype, gpu_backend(false));
    ASSERT_EQ(first.status.message(), "");
    for (const bool captured : {false, true}) {
      const ModuleResult again = run_module(GetParam(), values, dtype, gpu_backend(captured));
      ASSERT_EQ(again.status.message(), "");
      EXPECT_EQ(again.damage, "");
      EXPECT_EQ(again.written, first.written) << dtype_name(dtype) << " captured " << captured;
    }
  }
}

std::string case_name(const testing::TestParamInfo<ModuleCase>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, CudaModules, testing::ValuesIn(all_module_cases()), case_name);

/// Shapes of models, where vectors, several blocks and every partial sum are at work.
std::vector<ModuleCase> large_cases() {
  std::vector<ModuleCase> cases;
  const auto add = [&](std::string name, Module module, int64_t rows,
                       int64_t width) -> ModuleDesc& {
    ModuleCase& c = cases.emplace_back();
    c.name = std::move(name);
    c.desc.module = module;
    c.desc.rows = rows;
    c.desc.width = width;
    c.desc.eps = 1e-6F;
    c.seed = 100 + cases.size();
    return c.desc;
  };
  add("rms_norm", Module::kRmsNorm, 1500, 2048);
  add("rms_norm_two_vectors", Module::kRmsNorm, 40, 4104);
  add("rms_norm_very_wide", Module::kRmsNorm, 9, 10240);
  ModuleDesc& gated = add("gated_heads", Module::kRmsNorm, 1100, 1024);
  gated.heads = 8;
  gated.shared_weight = true;
  gated.function = Function::kSilu;
  gated.given = 1U << slot::RmsNorm::gate;
  add("layer_norm", Module::kLayerNorm, 1030, 1024).heads = 16;
  ModuleDesc& conv = add("short_conv", Module::kShortConv, 700, 1536);
  conv.taps = 4;
  conv.batch = 2;
  conv.function = Function::kSilu;
  ModuleDesc& embedding = add("embedding", Module::kEmbedding, 9000, 16);
  embedding.out = 300;
  add("hgrn2_gate", Module::kHgrn2Gate, 3000, 512);
  add("rwkv7_output", Module::kRwkv7Output, 2000, 512).heads = 8;
  ModuleDesc& shift = add("token_shift", Module::kTokenShift, 500, 256);
  shift.taps = 6;
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Large, CudaModules, testing::ValuesIn(large_cases()), case_name);

/// A flat fp32 or bf16 array on the device.
class Flat {
 public:
  Flat(DType dtype, const std::vector<double>& values)
      : dtype_(dtype),
        count_(static_cast<int64_t>(values.size())),
        bytes_(values.size() * dtype_bytes(dtype)),
        buffer_(taken(cuda::DeviceBuffer::create(bytes_ + kOffset))) {
    std::vector<std::byte> host(bytes_);
    for (size_t i = 0; i < values.size(); ++i)
      store_element(dtype, values[i], host.data() + i * dtype_bytes(dtype));
    require(buffer_.upload(host.data(), bytes_));
  }
  TensorView view() const { return contiguous_view(buffer_.data(), dtype_, {count_}); }
  std::vector<double> read() const {
    std::vector<std::byte> host(bytes_);
    require(buffer_.download(host.data(), bytes_));
    std::vector<double> values;
    for (size_t i = 0; i < static_cast<size_t>(count_); ++i)
      values.push_back(load_element(dtype_, host.data() + i * dtype_bytes(dtype_)));
    return values;
  }

 private:
  static constexpr size_t kOffset = 16;  // an empty array has an address too
  DType dtype_;
  int64_t count_;
  size_t bytes_;
  cuda::DeviceBuffer buffer_;
};

std::vector<double> normals(DType dtype, uint64_t stream, size_t count) {
  const Philox random(7, stream);
  std::vector<double> values;
  for (uint64_t i = 0; i < count; ++i)
    values.push_back(round_to(dtype, random.normal(i)));
  return values;
}

std::vector<double> squares(DType dtype, const std::vector<double>& values) {
  std::vector<double> result;
  for (const double x : values)
    result.push_back(round_to(dtype, x * x));
  return result;
}

struct OptimizerKind {
  DType param;
  DType state;
  bool master;
};

TEST(CudaOptimizer, AdamWAgreesWithRef) {
  constexpr size_t kCount = 1027;  // a tail of a vector
  for (const OptimizerKind kind : {OptimizerKind{DType::kBf16, DType::kBf16, false},
                                   OptimizerKind{DType::kFp32, DType::kFp32, false},
                                   OptimizerKind{DType::kBf16, DType::kFp32, true},
                                   OptimizerKind{DType::kFp32, DType::kFp32, true}}) {
    const std::vector<double> param = normals(kind.param, 1, kCount);
    const std::vector<double> grad = normals(kind.param, 2, kCount);
    const std::vector<double> m = normals(kind.state, 3, kCount);
    const std::vector<double> v = squares(kind.state, normals(DType::kFp32, 4, kCount));
    const std::vector<double> schedule = {0.125, 0.5, 0.25};
    const std::vector<double> norm = {8.0};
    AdamWStep step;
    step.count = kCount;
    step.max_norm = 2.0F;
    const Flat device[] = {Flat(kind.param, param),   Flat(kind.param, grad),
                           Flat(kind.state, m),       Flat(kind.state, v),
                           Flat(DType::kFp32, param), Flat(DType::kFp32, schedule),
                           Flat(DType::kFp32, norm)};
    step.param = device[0].view();
    step.grad = device[1].view();
    step.m = device[2].view();
    step.v = device[3].view();
    if (kind.master)
      step.master = device[4].view();
    step.schedule = device[5].view();
    step.norm = device[6].view();
    const cuda::OwnedStream stream = taken(cuda::OwnedStream::create());
    require(ops::adamw(step, cuda_context(), stream.get()));
    require(stream.synchronize());

    std::vector<double> want[] = {param, grad, m, v, schedule, norm};
    TensorView* const views[] = {&step.param, &step.grad,     &step.m,
                                 &step.v,     &step.schedule, &step.norm};
    for (size_t i = 0; i < std::size(want); ++i)
      *views[i] =
          contiguous_view(want[i].data(), DType::kFp64, {static_cast<int64_t>(want[i].size())});
    step.master = {};
    Context ref;
    ref.backend = Backend::kRef;
    require(ops::adamw(step, ref, Stream(nullptr)));
    for (const size_t tensor : {size_t{0}, size_t{2}, size_t{3}}) {
      const DType dtype = tensor == 0 ? kind.param : kind.state;
      const double limit = dtype == DType::kBf16 ? 0x1p-8 : kOptimizerLimit;
      const std::vector<double> got = device[tensor].read();
      for (size_t i = 0; i < kCount; ++i)
        EXPECT_NEAR(got[i], want[tensor][i], limit * (1 + std::abs(want[tensor][i])))
            << "tensor " << tensor << " element " << i;
    }
    if (!kind.master)
      continue;
    const std::vector<double> exact = device[4].read();
    const std::vector<double> rounded_param = device[0].read();
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(exact[i], want[0][i], kOptimizerLimit * (1 + std::abs(want[0][i])));
      EXPECT_EQ(rounded_param[i], round_to(kind.param, exact[i]));
    }
  }
}

TEST(CudaOptimizer, GradNormIsTheRootOfTheSumOfSquares) {
  for (const DType dtype : kDtypes) {
    for (const size_t count : {size_t{1}, size_t{5}, size_t{2000003}}) {
      const std::vector<double> grad = normals(dtype, 5, count);
      const Flat device(dtype, grad);
      const Flat norm(DType::kFp32, {-1.0});
      const size_t bytes = ops::grad_norm_bytes(static_cast<int64_t>(count));
      const cuda::DeviceBuffer scratch = taken(cuda::DeviceBuffer::create(bytes));
      const cuda::OwnedStream stream = taken(cuda::OwnedStream::create());
      require(ops::grad_norm(device.view(), norm.view(), {scratch.data(), bytes}, cuda_context(),
                             stream.get()));
      require(stream.synchronize());
      double sum = 0;
      for (const double x : grad)
        sum += x * x;
      EXPECT_NEAR(norm.read()[0], std::sqrt(sum), kOptimizerLimit * (1 + std::sqrt(sum)));
    }
  }
}

/// A module over cu_seqlens that lead nowhere writes no byte outside its outputs.
TEST(CudaModuleIndices, WrongOnesStayInside) {
  const std::vector<std::vector<int64_t>> wrong = {
      {-5, 100, 3, 2000000000}, {7, 7, 7, 7}, {2147483647, 0, -2147483648, 5}, {0, 10, 5, 20}};
  for (const Module module :
       {Module::kShortConv, Module::kTokenShift, Module::kRotary, Module::kAttention}) {
    for (const std::vector<int64_t>& cu_seqlens : wrong) {
      ModuleCase c;
      c.name = "wrong";
      c.desc.module = module;
      c.desc.rows = 20;
      c.desc.width = 32;
      c.desc.heads = 2;
      c.desc.taps = 4;
      c.desc.sequences = 3;
      c.cu_seqlens = cu_seqlens;
      const ops::ModuleRow& row = c.row();
      for (size_t i = 0; i < row.in.size(); ++i) {
        if (row.in[i].name == "cu_seqlens" || row.in[i].name == "initial_state")
          c.desc.given |= 1U << i;
      }
      for (size_t i = 0; i < row.out.size(); ++i)
        c.desc.given_out |= row.out[i].optional ? 1U << i : 0U;
      c.backward = module != Module::kAttention;  // whose values need ref's forward pass
      const ModuleResult result =
          run_module(c, make_module_values(c, DType::kFp32), DType::kFp32, gpu_backend(false));
      EXPECT_EQ(result.status.message(), "") << row.name;
      EXPECT_EQ(result.damage, "") << row.name;
    }
  }
}

TEST(CudaModuleIndices, IdsOutsideTheTableGiveRowsOfZeros) {
  ModuleCase c;
  c.desc.module = Module::kEmbedding;
  c.desc.rows = 6;
  c.desc.width = 16;
  c.desc.out = 4;
  ModuleValues values = make_module_values(c, DType::kFp32);
  values[{Part::kIn, slot::Embedding::ids}].values = {0, -1, 4, 3, 2147483647, 3};
  const ModuleResult result = run_module(c, values, DType::kFp32, gpu_backend(false));
  ASSERT_EQ(result.status.message(), "");
  EXPECT_EQ(result.damage, "");
  const std::vector<double>& y = result.written.at({Part::kOut, 0}).values;
  for (const size_t row : {size_t{1}, size_t{2}, size_t{4}}) {
    for (size_t i = 0; i < 16; ++i)
      EXPECT_EQ(y[row * 16 + i], 0.0);
  }
  const std::vector<double>& d_y = values.at({Part::kDOut, 0}).values;
  const std::vector<double>& d_table = result.written.at({Part::kDIn, 1}).values;
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(d_table[i], d_y[i]);
    EXPECT_EQ(d_table[16 + i], 0.0);
    EXPECT_EQ(d_table[2 * 16 + i], 0.0);
    EXPECT_NEAR(d_table[3 * 16 + i], d_y[3 * 16 + i] + d_y[5 * 16 + i], 1e-6);
  }
}

}  // namespace

TEST(CudaModulePlans, AreRefusedByNameWithoutAGpu) {
  ModuleDesc desc;
  desc.module = Module::kLinear;
  desc.rows = desc.width = desc.out = 8;
  const auto plan = ops::plan_module(desc, cuda_context());
  if (cuda::find_device(0).ok()) {
    EXPECT_EQ(plan.status().message(), "");
  } else {
    EXPECT_EQ(plan.status().code(), Code::kNoDevice);
  }
}

TEST(CudaModulePlans, RefuseMixedDtypes) {
  ModuleDesc desc;
  desc.module = Module::kRmsNorm;
  desc.rows = desc.width = 8;
  desc.dtype = DType::kBf16;
  desc.param_dtype = DType::kFp32;
  const auto plan = ops::plan_module(desc, cuda_context());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::kUnsupported);
}

}  // namespace fla::test
