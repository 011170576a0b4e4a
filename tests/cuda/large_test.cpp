// SPDX-License-Identifier: MIT
// faults.md on the GPU at sizes that no reference follows: tensors and state pools beyond 2^31
// elements (V01, V02), one long sequence beside many short ones (V28).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "cuda/gpu_operators.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/stream.h"

namespace fla::test {
namespace {

class Large : public testing::Test {
 protected:
  void SetUp() override {
    FLA_SKIP_WITHOUT_GPU();
    constexpr int64_t kNeeded = int64_t{100} << 30;
    if (cuda::find_device(0).value().memory_bytes < kNeeded)
      GTEST_SKIP() << "needs a GPU with 100 GiB";
  }
};

void require(const Status& status) {
  if (!status.ok())
    throw std::runtime_error(std::string(status.message()));
}

void require(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(error));
}

template <class T>
T taken(Result<T> result) {
  require(result.status());
  return std::move(result.value());
}

/// A call whose tensors live on the device alone.
class DeviceCall {
 public:
  explicit DeviceCall(const Case& test_case) : case_(test_case) {
    Context context;
    context.backend = Backend::kCuda;
    context.device = {DeviceType::kCuda, 0};
    plan_ = std::make_unique<Plan>(taken(make_plan(case_.op, case_.desc, context)));
    workspace_ = taken(cuda::DeviceBuffer::create(plan_->workspace_bytes()));
  }

  /// A contiguous tensor of the call's shape.
  TensorView& create(SlotKey key) {
    const ops::SlotSpec& spec = *case_.row().find(key.slot);
    TensorView view;
    view.rank = static_cast<int32_t>(ops::slot_extents(spec, case_.desc, &view.shape));
    view.dtype = slot_dtype(case_, spec);
    view.device = {DeviceType::kCuda, 0};
    int64_t stride = 1;
    for (int d = view.rank - 1; d >= 0; --d) {
      view.stride[static_cast<size_t>(d)] = stride;
      stride *= view.shape[static_cast<size_t>(d)];
    }
    cuda::DeviceBuffer buffer =
        taken(cuda::DeviceBuffer::create(static_cast<size_t>(stride) * dtype_bytes(view.dtype)));
    view.data = buffer.data();
    buffers_.push_back(std::move(buffer));
    return slot_view(key) = view;
  }
  TensorView& slot_view(SlotKey key) { return key.grad ? set_.grad(key.slot) : set_[key.slot]; }
  const Case& test_case() const { return case_; }

  void run() {
    const cuda::OwnedStream stream = taken(cuda::OwnedStream::create());
    require(plan_->run(set_, {workspace_.data(), workspace_.bytes()}, stream.get()));
    require(stream.synchronize());
  }
  Status run_on(Stream stream) const {
    return plan_->run(set_, {workspace_.data(), workspace_.bytes()}, stream);
  }

 private:
  Case case_;
  std::unique_ptr<Plan> plan_;
  cuda::DeviceBuffer workspace_;
  std::vector<cuda::DeviceBuffer> buffers_;
  TensorSet set_;
};

size_t view_bytes(const TensorView& view) {
  return static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype);
}

bool is_input(const Case& test_case, const ops::SlotSpec& spec) {
  return is_present(test_case, spec) && !is_output(spec.slot);
}

/// Fills a tensor with copies of a pattern whose length is no multiple of any row.
void fill_random(const TensorView& view, SlotKey key) {
  constexpr size_t kPattern = (size_t{1} << 22) + 67;
  const size_t element = dtype_bytes(view.dtype);
  std::vector<std::byte> pattern(kPattern * element);
  uint64_t state = 88172645463325252U + static_cast<uint64_t>(key.slot) * 7919U + key.grad;
  for (size_t i = 0; i < kPattern; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const double unit = static_cast<double>(state >> 11) * 0x1p-53;
    const bool is_gate = key.slot == Slot::kG;
    const bool is_beta = key.slot == Slot::kBeta;
    const double value = is_gate ? -unit : (is_beta ? unit : 0.2 * unit - 0.1);
    store_element(view.dtype, round_to(view.dtype, value), pattern.data() + i * element);
  }
  const size_t bytes = view_bytes(view);
  auto* data = static_cast<std::byte*>(view.data);
  const size_t first = std::min(bytes, pattern.size());
  require(cudaMemcpy(data, pattern.data(), first, cudaMemcpyHostToDevice));
  for (size_t at = first; at < bytes; at += first)
    require(cudaMemcpy(data + at, data, std::min(first, bytes - at), cudaMemcpyDeviceToDevice));
}

/// The elements of batch row `row` and head `head`, as bytes.
std::vector<std::byte> head_bytes(const TensorView& view, int64_t row, int64_t head) {
  const bool is_matrix = view.dtype == DType::kFp32 && view.rank == 4 && view.shape[2] == 128;
  const int head_axis = is_matrix ? 1 : 2;
  const size_t element = dtype_bytes(view.dtype);
  const auto stride = [&](int axis) {
    return static_cast<size_t>(view.stride[static_cast<size_t>(axis)]) * element;
  };
  const size_t count = is_matrix ? 1 : static_cast<size_t>(view.shape[1]);
  const size_t width = is_matrix ? stride(1) : (view.rank == 4 ? stride(2) : element);
  const auto* from = static_cast<const std::byte*>(view.data) +
                     static_cast<size_t>(row) * stride(0) +
                     static_cast<size_t>(head) * stride(head_axis);
  std::vector<std::byte> bytes(count * width);
  require(cudaMemcpy2D(bytes.data(), width, from, is_matrix ? width : stride(1), width, count,
                       cudaMemcpyDeviceToHost));
  return bytes;
}

/// Row `row` and head `head` of `large` run alone, its inputs read where they lie.
DeviceCall run_alone(DeviceCall& large, int64_t row, int64_t head) {
  Case alone = large.test_case();
  alone.desc.B = 1;
  alone.desc.H = 1;
  alone.desc.HV = 0;
  DeviceCall call(alone);
  const auto part_of = [&](SlotKey key) {
    TensorView view = large.slot_view(key);
    const size_t head_axis = is_state(key.slot) || key.slot == Slot::kFinalState ? 1 : 2;
    const int64_t offset = row * view.stride[0] + head * view.stride[head_axis];
    view.data =
        static_cast<std::byte*>(view.data) + static_cast<size_t>(offset) * dtype_bytes(view.dtype);
    view.shape[0] = 1;
    view.shape[head_axis] = 1;
    call.slot_view(key) = view;
  };
  for (const ops::SlotSpec& spec : alone.row().slots) {
    if (is_input(alone, spec))
      part_of(value_of(spec.slot));
  }
  if (alone.backward()) {
    part_of(grad_of(Slot::kO));
    part_of(grad_of(Slot::kFinalState));
  }
  for (const auto& [key, tensor] : expected_outputs(alone))
    call.create(key);
  call.run();
  return call;
}

void expect_heads_alone(int64_t B, int64_t T, Pass pass) {
  Case test_case = basic_case(*ops::find_op("gdn").value().row);
  OpDesc& desc = test_case.desc;
  desc.B = B;
  desc.T = T;
  desc.H = 64;
  desc.K = 128;
  desc.V = 128;
  desc.pass = pass;
  test_case.give_final_state();
  DeviceCall large(test_case);
  for (const ops::SlotSpec& spec : test_case.row().slots) {
    if (is_input(test_case, spec))
      fill_random(large.create(value_of(spec.slot)), value_of(spec.slot));
  }
  if (pass == Pass::kBackward) {
    for (SlotKey key : {grad_of(Slot::kO), grad_of(Slot::kFinalState)})
      fill_random(large.create(key), key);
  }
  const TensorMap outputs = expected_outputs(test_case);
  for (const auto& [key, tensor] : outputs) {
    TensorView& view = large.create(key);
    require(cudaMemset(view.data, 0xff, view_bytes(view)));
  }
  large.run();
  for (int64_t row : {int64_t{0}, B - 1}) {
    for (int64_t head : {0, 31, 63}) {
      DeviceCall alone = run_alone(large, row, head);
      for (const auto& [key, tensor] : outputs) {
        EXPECT_TRUE(head_bytes(large.slot_view(key), row, head) ==
                    head_bytes(alone.slot_view(key), 0, 0))
            << key_name(test_case.row(), key) << " row " << row << " head " << head;
      }
    }
    if (B == 1)
      break;
  }
}

TEST_F(Large, V01_many_rows_forward) {
  expect_heads_alone(16, 17'477, Pass::kForward);
}
TEST_F(Large, V01_many_rows_backward) {
  expect_heads_alone(16, 17'477, Pass::kBackward);
}
TEST_F(Large, V01_long_rows_forward) {
  expect_heads_alone(1, 262'208, Pass::kForward);
}
TEST_F(Large, V01_long_rows_backward) {
  expect_heads_alone(1, 262'208, Pass::kBackward);
}

/// A pool of 4,200 states of 2 MiB, of which eight are used.
TEST_F(Large, V02_pool_slots_beyond_32_bit_offsets) {
  constexpr int64_t kSlots = 4200;
  constexpr int64_t kSlotElements = 32 * 128 * 128;
  const std::vector<int64_t> rows = {0, 1, 4095, 4096, 4097, 4199, 2048, 3};
  Case small = basic_case(*ops::find_op("gdn").value().row);
  small.desc.B = 8;
  small.desc.T = 1;
  small.desc.H = 32;
  small.desc.K = 128;
  small.desc.V = 128;
  small.desc.num_state_slots = 8;
  small.pool_rows = {0, 1, 2, 3, 4, 5, 6, 7};
  small.give_initial_state();
  small.give_final_state();
  for (Form form : {Form::kRecurrent, Form::kChunk}) {
    small.desc.form = form;
    const TensorMap inputs = make_inputs(small);
    const TensorMap want = run_gpu_ok(small, inputs, {.state_in_place = true});
    Case large = small;
    large.desc.num_state_slots = kSlots;
    DeviceCall call(large);
    for (auto [key, tensor] : inputs) {
      TensorView& view = call.create(key);
      if (is_state(key.slot)) {
        require(cudaMemset(view.data, 0, view_bytes(view)));
        std::vector<float> slot(kSlotElements);
        for (size_t n = 0; n < rows.size(); ++n) {
          const auto begin = tensor.values.begin() + static_cast<std::ptrdiff_t>(n) * kSlotElements;
          std::transform(begin, begin + kSlotElements, slot.begin(),
                         [](double x) { return static_cast<float>(x); });
          require(cudaMemcpy(static_cast<float*>(view.data) + rows[n] * kSlotElements, slot.data(),
                             slot.size() * sizeof(float), cudaMemcpyHostToDevice));
        }
        continue;
      }
      if (key.slot == Slot::kStateIndices)
        tensor.values.assign(rows.begin(), rows.end());
      std::vector<std::byte> bytes(view_bytes(view));
      for (size_t i = 0; i < tensor.values.size(); ++i)
        store_element(view.dtype, tensor.values[i], bytes.data() + i * dtype_bytes(view.dtype));
      require(cudaMemcpy(view.data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    }
    const TensorView& pool = call.slot_view(value_of(Slot::kInitialState));
    call.slot_view(value_of(Slot::kFinalState)) = pool;
    call.create(value_of(Slot::kO));
    call.run();
    const auto read_slot = [&](int64_t slot) {
      std::vector<float> values(kSlotElements);
      require(cudaMemcpy(values.data(), static_cast<float*>(pool.data) + slot * kSlotElements,
                         values.size() * sizeof(float), cudaMemcpyDeviceToHost));
      return values;
    };
    const HostTensor& after = want.at(value_of(Slot::kFinalState));
    for (size_t n = 0; n < rows.size(); ++n) {
      const auto begin = after.values.begin() + static_cast<std::ptrdiff_t>(n) * kSlotElements;
      const std::vector<float> got = read_slot(rows[n]);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), begin)) << rows[n];
    }
    for (int64_t slot : {2, 4, 5, 102, 103, 104, 2047, 2049, 4094, 4098, 4198}) {
      const std::vector<float> got = read_slot(slot);
      EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](float x) { return x == 0.0F; })) << slot;
    }
  }
}

double milliseconds(int64_t B, int64_t T) {
  Case test_case = basic_case(*ops::find_op("kda").value().row);
  test_case.desc.B = B;
  test_case.desc.T = T;
  test_case.desc.H = 16;
  test_case.desc.K = 128;
  test_case.desc.V = 128;
  DeviceCall call(test_case);
  for (const ops::SlotSpec& spec : test_case.row().slots) {
    if (is_input(test_case, spec))
      fill_random(call.create(value_of(spec.slot)), value_of(spec.slot));
  }
  call.create(value_of(Slot::kO));
  const cuda::OwnedStream stream = taken(cuda::OwnedStream::create());
  const cuda::EventTimer timer = taken(cuda::EventTimer::create());
  std::vector<double> times;
  for (int round = 0; round < 12; ++round) {
    require(timer.start(stream.get()));
    require(call.run_on(stream.get()));
    require(timer.stop(stream.get()));
    times.push_back(taken(timer.milliseconds()));
  }
  std::nth_element(times.begin(), times.begin() + 6, times.end());
  return times[6];
}

/// Reported: the scan has one CTA a (sequence, head, slab), so that a long sequence fills less.
TEST_F(Large, V28_one_long_sequence_beside_eight) {
  const double one = milliseconds(1, 65'536);
  const double eight = milliseconds(8, 8'192);
  std::printf("V28: kda forward H16 D128, B1 T65536 %.3f ms, B8 T8192 %.3f ms, ratio %.2f\n", one,
              eight, one / eight);
  RecordProperty("ratio", std::to_string(one / eight));
}

}  // namespace
}  // namespace fla::test
