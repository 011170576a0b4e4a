// SPDX-License-Identifier: MIT
// The preconditioned write key and its gradients (math.md 5.8).
// Grid      scans over tokens: x = (sequence, segment, channels of all key heads), a thread a
//           channel; the others: x = 8 tokens and key heads, a warp each
// Rounding  none: A, the write key and the carried gradient are fp32
#include "cuda/chunk/fold/tiling.cuh"
#include "cuda/device/segments.cuh"

namespace fla::cuda::fold {
namespace {

__device__ __forceinline__ float offset_of(const Precondition& p, int32_t head) {
  return p.log_atk_scale.data == nullptr ? kAtkScale : parameter_at(p.log_atk_scale, head);
}

/// l = ln(A + eps) - c, 1 + |l|, and what the key is multiplied by.
struct Multiplier {
  float span;
  float value;
};

__device__ __forceinline__ Multiplier multiplier(float a, float offset) {
  const float log = logf(a + kAtkEpsilon) - offset;
  const float span = 1.0F + fabsf(log);
  return {span, expf(-kAtkLogBase * __fdividef(log, span))};
}

/// Where a channel of a scan lies.
struct Channel {
  __device__ Channel(const Precondition& p, const Segment& segment)
      : batch(segment.sequence.batch), head(segment.column / p.keys), x(segment.column % p.keys) {}
  __device__ int64_t row(const Precondition& p, int32_t token) const {
    return (static_cast<int64_t>(batch) * p.T + token) * p.heads + head;
  }
  int32_t batch;
  int32_t head;
  int32_t x;
};

/// Tokens on their way through A.
class KeyTokens {
 public:
  static constexpr int kAhead = 8;
  struct Bits {
    uint32_t k, g, beta;
    float factor;
  };
  __device__ KeyTokens(const Precondition& p, const Channel& channel) : p_(p), c_(channel) {}

  __device__ void load(int32_t token, bool valid, Bits* bits) const {
    const char* k = row_at(p_.k, c_.batch, token, c_.head) + c_.x * p_.k.element;
    bits->k = load_bits(k, p_.k.element, valid);
    bits->g = load_bits(row_at(p_.g_atk, c_.batch, token, c_.head), p_.g_atk.element, valid);
    bits->beta =
        load_bits(row_at(p_.beta_atk, c_.batch, token, c_.head), p_.beta_atk.element, valid);
    bits->factor = p_.norm && valid ? p_.key_factor[c_.row(p_, token)] : 1.0F;
  }
  __device__ float decay(const Bits& bits) const { return expf(to_float(bits.g, p_.g_atk.dtype)); }
  __device__ float key(const Bits& bits) const {
    return bits.factor * to_float(bits.k, p_.k.dtype);
  }
  __device__ float input(const Bits& bits) const {
    return to_float(bits.beta, p_.beta_atk.dtype) * key(bits) * key(bits);
  }

 private:
  const Precondition& p_;
  const Channel& c_;
};

/// Tokens on their way back through the gradient of A.
class CarryTokens {
 public:
  static constexpr int kAhead = 16;
  struct Bits {
    uint32_t g;
    float local;
  };
  __device__ CarryTokens(const Precondition& p, const Channel& channel) : p_(p), c_(channel) {}

  __device__ void load(int32_t token, bool valid, Bits* bits) const {
    bits->g = load_bits(row_at(p_.g_atk, c_.batch, token, c_.head), p_.g_atk.element, valid);
    bits->local = valid ? p_.carry[c_.row(p_, token) * p_.keys + c_.x] : 0.0F;
  }
  __device__ float decay(const Bits& bits) const { return expf(to_float(bits.g, p_.g_atk.dtype)); }
  __device__ float reverse_input(const Bits& bits) const { return bits.local; }

 private:
  const Precondition& p_;
  const Channel& c_;
};

__device__ __forceinline__ float initial_state(const Precondition& p, const Segment& segment,
                                               const Channel& channel) {
  return read_key_state(p.initial, segment.sequence, channel.head, channel.x);
}

}  // namespace

__global__ void __launch_bounds__(kThreads)
    fla_fold_key_factor(const __grid_constant__ Precondition p) {
  const WarpRow row = warp_row(p.T, p.heads);
  if (row.index >= p.num_rows)
    return;
  const char* k = row_at(p.k, row.batch, row.token, row.head);
  const float factor = norm_factor(p.k, k, p.keys, row.lane);
  if (row.lane == 0)
    p.key_factor[row.index] = factor;
}

__global__ void __launch_bounds__(kScanThreads)
    fla_fold_precondition_sums(const __grid_constant__ Precondition p) {
  const Segment segment = segment_of(p.segments);
  if (!segment.valid)
    return;
  const Channel channel(p, segment);
  sum_segment(KeyTokens(p, channel), p.segments, segment);
  // The last segment may overwrite the initial state in place before the first has read it.
  if (segment.index == 0) {
    p.segments.start[segment.n * p.segments.columns + segment.column] =
        initial_state(p, segment, channel);
  }
}

__global__ void __launch_bounds__(kScanThreads)
    fla_fold_precondition(const __grid_constant__ Precondition p) {
  const Segment segment = segment_of(p.segments);
  if (!segment.valid)
    return;
  const Channel channel(p, segment);
  const float start = p.segments.count > 1
                          ? p.segments.start[segment.n * p.segments.columns + segment.column]
                          : initial_state(p, segment, channel);
  float a = entering(p.segments, segment, start);
  const float offset = offset_of(p, channel.head);
  const KeyTokens tokens(p, channel);
  walk(tokens, segment.first, segment.end, [&](int32_t token, const KeyTokens::Bits& bits) {
    const float decayed = tokens.decay(bits) * a;
    a = decayed + tokens.input(bits);
    const int64_t at = channel.row(p, token) * p.keys + channel.x;
    if (p.decayed != nullptr)
      p.decayed[at] = decayed;
    p.write_key[at] = tokens.key(bits) * multiplier(a, offset).value;
  });
  if (p.final.data == nullptr || segment.index != p.segments.count - 1 ||
      segment.sequence.state_row < 0) {
    return;
  }
  p.final.data[segment.sequence.state_row * p.final.row + channel.head * p.final.head +
               channel.x * p.final.key] = a;
}

namespace {

/// A token and key head in the backward pass, as its warp sees it.
class KeyRow {
 public:
  __device__ KeyRow(const Precondition& p, const WarpRow& row)
      : p_(p),
        row_(row),
        k_(row_at(p.k, row.batch, row.token, row.head)),
        factor_(p.norm ? norm_factor(p.k, k_, p.keys, row.lane) : 1.0F),
        beta_(load_at(p.beta_atk, row_at(p.beta_atk, row.batch, row.token, row.head), 0)),
        offset_(offset_of(p, row.head)) {}

  __device__ float key(int32_t x) const { return factor_ * load_at(p_.k, k_, x); }
  __device__ float a(int32_t x) const { return p_.decayed[at(x)] + beta_ * key(x) * key(x); }
  __device__ Multiplier factor(int32_t x) const { return multiplier(a(x), offset_); }
  /// A gradient a value head, summed over the group.
  __device__ float group_sum(const float* gradient, int32_t x) const {
    float sum = 0.0F;
    for (int32_t i = 0; i < p_.group; ++i)
      sum += gradient[(static_cast<int64_t>(row_.index) * p_.group + i) * p_.keys + x];
    return sum;
  }
  /// Of the normalised key, through the write key and through A.
  __device__ float d_key(int32_t x) const {
    return group_sum(p_.d_write_key, x) * factor(x).value + 2.0F * beta_ * key(x) * p_.carry[at(x)];
  }
  __device__ int64_t at(int32_t x) const { return static_cast<int64_t>(row_.index) * p_.keys + x; }
  __device__ float norm_factor_used() const { return factor_; }

 private:
  const Precondition& p_;
  const WarpRow& row_;
  const char* k_;
  float factor_;
  float beta_;
  float offset_;
};

}  // namespace

__global__ void __launch_bounds__(kThreads)
    fla_fold_precondition_local(const __grid_constant__ Precondition p) {
  const WarpRow row = warp_row(p.T, p.heads);
  if (row.index >= p.num_rows)
    return;
  const KeyRow keys(p, row);
  float d_scale = 0.0F;
  for (int32_t x = row.lane; x < p.keys; x += kWarpSize) {
    const Multiplier m = keys.factor(x);
    const float d_log =
        -kAtkLogBase * m.value * keys.group_sum(p.d_write_key, x) * keys.key(x) / (m.span * m.span);
    d_scale -= d_log;
    p.carry[keys.at(x)] = d_log / (keys.a(x) + kAtkEpsilon);
  }
  d_scale = warp_sum(d_scale);
  if (row.lane == 0)
    p.d_scale[row.index] = d_scale;
}

__global__ void __launch_bounds__(kScanThreads)
    fla_fold_precondition_sums_back(const __grid_constant__ Precondition p) {
  const Segment segment = segment_of(p.segments);
  if (!segment.valid)
    return;
  const Channel channel(p, segment);
  sum_segment_back(CarryTokens(p, channel), p.segments, segment);
}

__global__ void __launch_bounds__(kScanThreads)
    fla_fold_precondition_back(const __grid_constant__ Precondition p) {
  const Segment segment = segment_of(p.segments);
  if (!segment.valid)
    return;
  const Channel channel(p, segment);
  const int64_t in_state = channel.head * p.d_final.head + channel.x * p.d_final.key;
  const float last =
      p.d_final.data == nullptr ? 0.0F : p.d_final.data[segment.n * p.d_final.row + in_state];
  float carry = entering_back(p.segments, segment, last);
  const CarryTokens tokens(p, channel);
  walk_back(tokens, segment.first, segment.end, [&](int32_t token, const CarryTokens::Bits& bits) {
    const float w = bits.local + carry;
    p.carry[channel.row(p, token) * p.keys + channel.x] = w;
    carry = tokens.decay(bits) * w;
  });
  if (p.d_initial.data == nullptr || segment.index != 0)
    return;
  p.d_initial.data[segment.n * p.d_initial.row + channel.head * p.d_initial.head +
                   channel.x * p.d_initial.key] = segment.sequence.reads_state ? carry : 0.0F;
}

__global__ void __launch_bounds__(kThreads)
    fla_fold_precondition_gradient(const __grid_constant__ Precondition p) {
  const WarpRow row = warp_row(p.T, p.heads);
  if (row.index >= p.num_rows)
    return;
  const KeyRow keys(p, row);
  float dot = 0.0F;
  float d_gate = 0.0F;
  float d_beta = 0.0F;
  for (int32_t x = row.lane; x < p.keys; x += kWarpSize) {
    const float key = keys.key(x);
    const float w = p.carry[keys.at(x)];
    d_gate += w * p.decayed[keys.at(x)];
    d_beta += w * key * key;
    dot += keys.d_key(x) * key;
  }
  d_gate = warp_sum(d_gate);
  d_beta = warp_sum(d_beta);
  dot = p.norm ? warp_sum(dot) : 0.0F;
  if (row.lane == 0 && p.d_g_atk.data != nullptr)
    store_at(p.d_g_atk, row_at(p.d_g_atk, row.batch, row.token, row.head), 0, d_gate);
  if (row.lane == 0 && p.d_beta_atk.data != nullptr)
    store_at(p.d_beta_atk, row_at(p.d_beta_atk, row.batch, row.token, row.head), 0, d_beta);
  if (p.d_k.data == nullptr)
    return;
  char* out = row_at(p.d_k, row.batch, row.token, row.head);
  for (int32_t x = row.lane; x < p.keys; x += kWarpSize) {
    const float through_key = keys.norm_factor_used() * (keys.d_key(x) - dot * keys.key(x));
    store_at(p.d_k, out, x, through_key + keys.group_sum(p.d_erase_key, x));
  }
}

namespace {

template <class Function>
Kernel kernel_of(Function* function, int threads, const char* name) {
  return {reinterpret_cast<const void*>(function), threads, name};
}

}  // namespace

Kernel key_factor_kernel() {
  return kernel_of(&fla_fold_key_factor, kThreads, "fold.key_factor");
}
Kernel precondition_sums_kernel() {
  return kernel_of(&fla_fold_precondition_sums, kScanThreads, "fold.precondition_sums");
}
Kernel precondition_kernel() {
  return kernel_of(&fla_fold_precondition, kScanThreads, "fold.precondition");
}
Kernel precondition_local_kernel() {
  return kernel_of(&fla_fold_precondition_local, kThreads, "fold.precondition_local");
}
Kernel precondition_sums_back_kernel() {
  return kernel_of(&fla_fold_precondition_sums_back, kScanThreads, "fold.precondition_sums_back");
}
Kernel precondition_back_kernel() {
  return kernel_of(&fla_fold_precondition_back, kScanThreads, "fold.precondition_back");
}
Kernel precondition_gradient_kernel() {
  return kernel_of(&fla_fold_precondition_gradient, kThreads, "fold.precondition_gradient");
}

}  // namespace fla::cuda::fold
