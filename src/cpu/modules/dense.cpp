// SPDX-License-Identifier: MIT
// Modules that multiply by a weight matrix or look rows of it up.
#include <bit>

#include "cpu/modules/common.h"

namespace fla::cpu {
namespace {

float beta_of(const ModuleRun& run, size_t slot) {
  return run.adds(slot) ? 1.0F : 0.0F;
}

/// d_x = d_y W and d_W = d_y^T x over `rows` rows, each where it is asked for.
void multiply_gradients(const ModuleRun& run, int64_t rows, const Rows& d_y, const Rows& x,
                        const Rows& weight, const Rows& d_x, float d_x_beta, const Rows& d_weight,
                        float d_weight_beta) {
  const ModuleDesc& d = run.desc;
  const Factor gradient{d_y.data(), d_y.stride()};
  if (d_x)
    run.product(run.threads, {rows, d.width, d.out}, gradient, {weight.data(), d.width}, d_x_beta,
                d_x.data(), d_x.stride());
  if (d_weight)
    run.product(run.threads, {d.out, d.width, rows}, {d_y.data(), d_y.stride(), true},
                {x.data(), x.stride()}, d_weight_beta, d_weight.data(), d.width);
}

void linear_forward(const ModuleRun& run) {
  using S = slot::Linear;
  const ModuleDesc& d = run.desc;
  const Rows x = run.in(S::x), y = run.out(S::y), residual = run.optional_in(S::residual);
  const float* bias = run.optional_in(S::bias)[0];
  const bool starts = residual || bias != nullptr;
  if (starts) {
    for_each_row(run, [&](int64_t r) {
      const float* from = residual[r];
      float* to = y[r];
      for (int64_t o = 0; o < d.out; ++o)
        to[o] = (from != nullptr ? from[o] : 0.0F) + (bias != nullptr ? bias[o] : 0.0F);
    });
  }
  run.product(run.threads, {d.rows, d.out, d.width}, {x.data(), x.stride()},
              {run.in(S::weight).data(), d.width, true}, starts ? 1.0F : 0.0F, y.data(),
              y.stride());
}

void linear_backward(const ModuleRun& run) {
  using S = slot::Linear;
  const ModuleDesc& d = run.desc;
  const Rows d_y = run.d_out(S::y);
  multiply_gradients(run, d.rows, d_y, run.in(S::x), run.in(S::weight), run.d_in(S::x),
                     beta_of(run, S::x), run.d_in(S::weight), beta_of(run, S::weight));
  if (!d.has(S::bias) || !run.d_in(S::bias))
    return;
  for_each_row_with_sums(run, run.scratch, d.out, [&](int64_t r, float* sums) {
    const float* g = d_y[r];
    for (int64_t o = 0; o < d.out; ++o)
      sums[o] += g[o];
  });
  store_sums(run, S::bias, d.out, run.scratch, d.out, [](int64_t o) { return o; });
}

int64_t linear_scratch(const ModuleDesc& d, Pass pass) {
  return pass == Pass::kBackward && d.has(slot::Linear::bias) ? sum_floats(d.rows, d.out) : 0;
}

void embedding_forward(const ModuleRun& run) {
  using S = slot::Embedding;
  const int32_t* ids = static_cast<const int32_t*>(run.tensors.in[S::ids].data);
  const Rows table = run.in(S::table), y = run.out(S::y);
  for_each_row(run, [&](int64_t r) { std::copy_n(table[ids[r]], run.desc.width, y[r]); });
}

/// A thread has columns to itself and adds rows in their order.
void embedding_backward(const ModuleRun& run) {
  using S = slot::Embedding;
  constexpr int64_t kColumns = 32;
  const ModuleDesc& d = run.desc;
  const int32_t* ids = static_cast<const int32_t*>(run.tensors.in[S::ids].data);
  const Rows d_y = run.d_out(S::y), d_table = run.d_in(S::table);
  if (!d_table)
    return;
  parallel_for(run.threads, (d.width + kColumns - 1) / kColumns, [&](int64_t piece) {
    const int64_t first = piece * kColumns;
    const int64_t count = std::min(kColumns, d.width - first);
    for (int64_t o = 0; o < d.out && !run.adds(S::table); ++o)
      std::fill_n(d_table[o] + first, count, 0.0F);
    for (int64_t r = 0; r < d.rows; ++r) {
      float* to = d_table[ids[r]] + first;
      const float* g = d_y[r] + first;
      for (int64_t c = 0; c < count; ++c)
        to[c] += g[c];
    }
  });
}

/// Rows whose logits are in memory at once: the logits of all would be [rows, out].
int64_t logit_rows(const ModuleDesc& d) {
  const int64_t blocks = std::min<int64_t>(8, (d.out + d.width - 1) / d.width);
  const uint64_t rows = static_cast<uint64_t>((d.rows + blocks - 1) / blocks);
  return static_cast<int64_t>(std::bit_ceil(rows));
}

int64_t cross_entropy_scratch(const ModuleDesc& d, Pass /*pass*/) {
  return d.rows + std::min(d.rows, logit_rows(d)) * d.out;
}

/// The loss of one row; with `targets` its logits become softmax - onehot over that number.
float row_loss(float* logits, int64_t out, int32_t label, float targets) {
  if (label < 0) {
    if (targets > 0)
      std::fill_n(logits, out, 0.0F);
    return 0;
  }
  const float largest = *std::max_element(logits, logits + out);
  double sum = 0;
  for (int64_t o = 0; o < out; ++o)
    sum += static_cast<double>(std::exp(logits[o] - largest));
  const float log_sum = largest + static_cast<float>(std::log(sum));
  const float loss = log_sum - logits[label];
  if (targets <= 0)
    return loss;
  for (int64_t o = 0; o < out; ++o)
    logits[o] = std::exp(logits[o] - log_sum) / targets;
  logits[label] -= 1 / targets;
  return loss;
}

void cross_entropy(const ModuleRun& run, bool backward) {
  using S = slot::LinearCrossEntropy;
  const ModuleDesc& d = run.desc;
  const Rows x = run.in(S::x), weight = run.in(S::weight);
  const int32_t* labels = static_cast<const int32_t*>(run.tensors.in[S::labels].data);
  const auto targets = std::count_if(labels, labels + d.rows, [](int32_t id) { return id >= 0; });
  const float divisor = backward ? std::max(1.0F, static_cast<float>(targets)) : 0.0F;
  float* losses = run.scratch;
  const Rows logits(losses + d.rows, d.out);
  for (int64_t first = 0; first < d.rows; first += logit_rows(d)) {
    const int64_t rows = std::min(logit_rows(d), d.rows - first);
    const Rows piece(x[first], x.stride());
    run.product(run.threads, {rows, d.out, d.width}, {piece.data(), piece.stride()},
                {weight.data(), d.width, true}, 0.0F, logits.data(), d.out);
    parallel_for(run.threads, rows, [&](int64_t r) {
      losses[first + r] = row_loss(logits[r], d.out, labels[first + r], divisor);
    });
    if (backward)
      multiply_gradients(run, rows, logits, piece, weight,
                         Rows(run.d_in(S::x)[first], run.d_in(S::x).stride()), 0.0F,
                         run.d_in(S::weight), first == 0 ? 0.0F : 1.0F);
  }
  double sum = 0;
  for (int64_t r = 0; r < d.rows; ++r)
    sum += static_cast<double>(losses[r]);
  const double mean = targets == 0 ? 0.0 : sum / static_cast<double>(targets);
  if (const Rows loss = run.out(S::loss); loss)
    loss[0][0] = static_cast<float>(mean);
}

void cross_entropy_forward(const ModuleRun& run) {
  cross_entropy(run, false);
}
void cross_entropy_backward(const ModuleRun& run) {
  cross_entropy(run, true);
}

}  // namespace

const ModuleKernel kLinear = {linear_forward, linear_backward, linear_scratch, true};
const ModuleKernel kEmbedding = {embedding_forward, embedding_backward, no_scratch};
const ModuleKernel kLinearCrossEntropy = {cross_entropy_forward, cross_entropy_backward,
                                          cross_entropy_scratch, true};

}  // namespace fla::cpu
