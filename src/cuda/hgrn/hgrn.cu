// SPDX-License-Identifier: MIT
// hgrn, forward and backward (math.md 6.7): h_t = e^g h_{t-1} + x_t, o = h.
// Grid      x = (sequence, segment, channels), a thread a channel
// Cost      memory; x and g are read twice where a sequence is cut into segments
#include "cuda/device/load.cuh"
#include "cuda/device/segments.cuh"
#include "cuda/hgrn/kernels.h"

namespace fla::cuda::hgrn {
namespace {

/// The channel's element of row `token`.
__device__ __forceinline__ char* element_at(const Rows& rows, const Segment& segment,
                                            int32_t token) {
  return rows.data + segment.sequence.batch * rows.batch + token * rows.token +
         static_cast<int64_t>(segment.column) * rows.element;
}

__device__ __forceinline__ uint32_t load(const Rows& rows, const Segment& segment, int32_t token,
                                         bool valid) {
  return load_bits(element_at(rows, segment, token), rows.element, valid);
}

class Tokens {
 public:
  static constexpr int kAhead = kBlockTokens;
  struct Bits {
    uint32_t x, g;
  };
  __device__ Tokens(const Params& p, const Segment& segment) : p_(p), segment_(segment) {}

  __device__ void load(int32_t token, bool valid, Bits* bits) const {
    bits->x = hgrn::load(p_.x, segment_, token, valid);
    bits->g = hgrn::load(p_.g, segment_, token, valid);
  }
  __device__ float decay(const Bits& bits) const { return expf(to_float(bits.g, p_.g.dtype)); }
  __device__ float input(const Bits& bits) const { return to_float(bits.x, p_.x.dtype); }

 private:
  const Params& p_;
  const Segment& segment_;
};

/// The same with the gradient of o.
class GradientTokens {
 public:
  static constexpr int kAhead = kBlockTokens;
  struct Bits {
    uint32_t x, g, d_o;
  };
  __device__ GradientTokens(const Params& p, const Segment& segment) : p_(p), segment_(segment) {}

  __device__ void load(int32_t token, bool valid, Bits* bits) const {
    bits->x = hgrn::load(p_.x, segment_, token, valid);
    bits->g = hgrn::load(p_.g, segment_, token, valid);
    bits->d_o = hgrn::load(p_.d_o, segment_, token, valid);
  }
  __device__ float decay(const Bits& bits) const { return expf(to_float(bits.g, p_.g.dtype)); }
  __device__ float input(const Bits& bits) const { return to_float(bits.x, p_.x.dtype); }
  __device__ float reverse_input(const Bits& bits) const {
    return to_float(bits.d_o, p_.d_o.dtype);
  }

 private:
  const Params& p_;
  const Segment& segment_;
};

__device__ __forceinline__ void store(const Rows& rows, const Segment& segment, int32_t token,
                                      float value) {
  if (rows.data != nullptr)
    store_float(element_at(rows, segment, token), rows.dtype, value);
}

__device__ __forceinline__ float initial_state(const Params& p, const Segment& segment) {
  return read_key_state(p.initial, segment.sequence, 0, segment.column);
}

}  // namespace

__global__ void __launch_bounds__(kScanThreads) fla_hgrn_sums(const __grid_constant__ Params p) {
  const Segment segment = segment_of(p.segments);
  if (!segment.valid)
    return;
  sum_segment(Tokens(p, segment), p.segments, segment);
  // The last segment may overwrite the initial state in place before the first has read it.
  if (segment.index == 0) {
    p.segments.start[segment.n * p.segments.columns + segment.column] = initial_state(p, segment);
  }
}

__global__ void __launch_bounds__(kScanThreads) fla_hgrn_forward(const __grid_constant__ Params p) {
  const Segment segment = segment_of(p.segments);
  if (!segment.valid)
    return;
  if (segment.sequence.state_row < 0) {
    for (int32_t token = segment.first; token < segment.end; ++token)
      store(p.o, segment, token, 0.0F);
    return;
  }
  const float start = p.segments.count > 1
                          ? p.segments.start[segment.n * p.segments.columns + segment.column]
                          : initial_state(p, segment);
  float h = entering(p.segments, segment, start);
  const Tokens tokens(p, segment);
  walk(tokens, segment.first, segment.end, [&](int32_t token, const Tokens::Bits& bits) {
    h = tokens.decay(bits) * h + tokens.input(bits);
    store(p.o, segment, token, h);
  });
  if (p.final.data == nullptr || segment.index != p.segments.count - 1)
    return;
  p.final.data[segment.sequence.state_row * p.final.row + segment.column * p.final.key] = h;
}

__global__ void __launch_bounds__(kScanThreads)
    fla_hgrn_sums_backward(const __grid_constant__ Params p) {
  const Segment segment = segment_of(p.segments);
  if (!segment.valid)
    return;
  float decay = 1.0F;
  float end = 0.0F;
  float reverse_end = 0.0F;
  const GradientTokens tokens(p, segment);
  walk(tokens, segment.first, segment.end, [&](int32_t, const GradientTokens::Bits& bits) {
    const float f = tokens.decay(bits);
    decay *= f;
    end = f * end + tokens.input(bits);
    reverse_end += decay * tokens.reverse_input(bits);
  });
  const int64_t at = sums_at(p.segments, segment, segment.index);
  p.segments.decay[at] = decay;
  p.segments.end[at] = end;
  p.segments.reverse_end[at] = reverse_end;
}

namespace {

/// The rows of `starts` of a segment, this thread's channel. Every sequence of a packed call may
/// begin within a block, so that each has one row more than its tokens fill.
__device__ __forceinline__ float* starts_of(const Params& p, const Segment& segment) {
  const int64_t sequence_row = p.segments.sequences.packed
                                   ? segment.sequence.first / kBlockTokens + segment.n
                                   : segment.n * p.blocks_a_batch;
  const int64_t row = sequence_row + (segment.first - segment.sequence.first) / kBlockTokens;
  return p.starts + row * p.segments.columns + segment.column;
}

/// dx, dg of the block's tokens from h before them; returns the carry to the tokens before.
__device__ __forceinline__ float block_backward(const Params& p, const Segment& segment,
                                                int32_t first, float h, float carry) {
  const GradientTokens tokens(p, segment);
  GradientTokens::Bits bits[kBlockTokens];
#pragma unroll
  for (int i = 0; i < kBlockTokens; ++i)
    tokens.load(first + i, first + i < segment.end, &bits[i]);
  float decayed[kBlockTokens];  // e^g h_{t-1}
#pragma unroll
  for (int i = 0; i < kBlockTokens; ++i) {
    decayed[i] = tokens.decay(bits[i]) * h;
    h = decayed[i] + tokens.input(bits[i]);
  }
#pragma unroll
  for (int i = kBlockTokens - 1; i >= 0; --i) {
    if (first + i >= segment.end)
      continue;
    const float d_h = tokens.reverse_input(bits[i]) + carry;
    store(p.d_x, segment, first + i, d_h);
    store(p.d_g, segment, first + i, d_h * decayed[i]);
    carry = tokens.decay(bits[i]) * d_h;
  }
  return carry;
}

}  // namespace

__global__ void __launch_bounds__(kScanThreads)
    fla_hgrn_backward(const __grid_constant__ Params p) {
  const Segment segment = segment_of(p.segments);
  if (!segment.valid)
    return;
  const int64_t columns = p.segments.columns;
  float* starts = starts_of(p, segment);
  float h = entering(p.segments, segment, initial_state(p, segment));
  const Tokens tokens(p, segment);
  walk(tokens, segment.first, segment.end, [&](int32_t token, const Tokens::Bits& bits) {
    const int32_t within = token - segment.first;
    if (within % kBlockTokens == 0)
      starts[within / kBlockTokens * columns] = h;
    h = tokens.decay(bits) * h + tokens.input(bits);
  });
  const float last =
      p.d_final.data == nullptr
          ? 0.0F
          : p.d_final.data[segment.n * p.d_final.row + segment.column * p.d_final.key];
  float carry = entering_back(p.segments, segment, last);
  const int32_t num_blocks = (segment.end - segment.first + kBlockTokens - 1) / kBlockTokens;
  for (int32_t block = num_blocks - 1; block >= 0; --block) {
    carry = block_backward(p, segment, segment.first + block * kBlockTokens,
                           starts[block * columns], carry);
  }
  if (p.d_initial.data == nullptr || segment.index != 0)
    return;
  p.d_initial.data[segment.n * p.d_initial.row + segment.column * p.d_initial.key] =
      segment.sequence.reads_state ? carry : 0.0F;
}

Kernel sums_kernel() {
  return {reinterpret_cast<const void*>(&fla_hgrn_sums), kScanThreads, "hgrn.sums"};
}
Kernel forward_kernel() {
  return {reinterpret_cast<const void*>(&fla_hgrn_forward), kScanThreads, "hgrn.forward"};
}
Kernel sums_backward_kernel() {
  return {reinterpret_cast<const void*>(&fla_hgrn_sums_backward), kScanThreads,
          "hgrn.sums_backward"};
}
Kernel backward_kernel() {
  return {reinterpret_cast<const void*>(&fla_hgrn_backward), kScanThreads, "hgrn.backward"};
}

}  // namespace fla::cuda::hgrn
