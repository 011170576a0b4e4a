// SPDX-License-Identifier: MIT
// The rows of the modules: slots, gradients, and what the backward pass reads.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/module.h"
#include "ops/modules.h"

namespace fla::ops {
namespace {

int64_t one(const ModuleDesc& /*d*/) {
  return 1;
}
int64_t rows(const ModuleDesc& d) {
  return d.rows;
}
int64_t width(const ModuleDesc& d) {
  return d.width;
}
int64_t out(const ModuleDesc& d) {
  return d.out;
}
int64_t heads(const ModuleDesc& d) {
  return d.heads;
}
int64_t taps(const ModuleDesc& d) {
  return d.taps;
}
int64_t sequences(const ModuleDesc& d) {
  return d.num_sequences();
}
int64_t sequence_ends(const ModuleDesc& d) {
  return d.num_sequences() + 1;
}
int64_t norm_weight(const ModuleDesc& d) {
  return d.shared_weight ? d.width / d.heads : d.width;
}
int64_t twice_width(const ModuleDesc& d) {
  return 2 * d.width;
}
int64_t mixed_width(const ModuleDesc& d) {
  return d.taps * d.width;
}
int64_t conv_state(const ModuleDesc& d) {  // a sequence's [width, taps - 1] in one row
  return d.width * (d.taps - 1);
}
int64_t key_width(const ModuleDesc& d) {
  return d.width / d.heads * d.key_heads();
}
int64_t cache_row(const ModuleDesc& d) {  // a sequence's [cache_length, channels] in one row
  return d.cache_length * key_width(d);
}

constexpr ModuleRole kParameter = ModuleRole::kParameter;
constexpr ModuleRole kActivation = ModuleRole::kActivation;
constexpr ModuleRole kState = ModuleRole::kState;
constexpr ModuleRole kIndex = ModuleRole::kIndex;
constexpr ModuleRole kSum = ModuleRole::kSum;

template <class... Slots>
constexpr uint32_t bits(Slots... slots) {
  return (0U | ... | (1U << static_cast<unsigned>(slots)));
}

std::vector<ModuleRow> make_rows() {
  return {
      {.module = Module::kLinear,
       .name = "linear",
       .summary = "y = x W^T + bias + residual",
       .source = "dense product; residual's gradient is y's",
       .in = {{"x", kActivation, false, rows, width},
              {"weight", kParameter, false, out, width},
              {"bias", kParameter, true, one, out},
              {"residual", kActivation, true, rows, out}},
       .out = {{"y", kActivation, false, rows, out}},
       .grads = bits(0, 1, 2),
       .reads_in = bits(0, 1),
       .accumulates = bits(0, 1, 2)},
      {.module = Module::kEmbedding,
       .name = "embedding",
       .summary = "y_t = table[id_t]",
       .source =
           "lookup; ids outside the table are refused on the CPU and give a row of zeros on a GPU",
       .in = {{"ids", kIndex, false, one, rows}, {"table", kParameter, false, out, width}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(1),
       .reads_in = bits(0),
       .accumulates = bits(1)},
      {.module = Module::kRmsNorm,
       .name = "rms_norm",
       .summary = "y = x / sqrt(mean(x^2) + eps) w f(gate), over each head's channels",
       .source =
           "Zhang and Sennrich 2019; the gate after Sun et al. 2023 (RetNet), first as in Mamba-2",
       .in = {{"x", kActivation, false, rows, width},
              {"weight", kParameter, false, one, norm_weight},
              {"gate", kActivation, true, rows, width}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(0, 1, 2),
       .reads_in = bits(0, 1, 2),
       .accumulates = bits(0, 1, 2),
       .cheap = true},
      {.module = Module::kLayerNorm,
       .name = "layer_norm",
       .summary = "y = (x - mean) / sqrt(var + eps) w + b, over each head's channels",
       .source = "Ba et al. 2016; Wu and He 2018 (group norm)",
       .in = {{"x", kActivation, false, rows, width},
              {"weight", kParameter, false, one, width},
              {"bias", kParameter, false, one, width}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(0, 1, 2),
       .reads_in = bits(0, 1),
       .accumulates = bits(0, 1, 2),
       .cheap = true},
      {.module = Module::kShortConv,
       .name = "short_conv",
       .summary = "y_t = f(sum_j w_j x_{t-W+1+j} + bias), a channel by itself, within a sequence",
       .source = "Fu et al. 2023 (H3); Gu and Dao 2023",
       .in = {{"x", kActivation, false, rows, width},
              {"weight", kParameter, false, width, taps},
              {"bias", kParameter, true, one, width},
              {"initial_state", kState, true, sequences, conv_state},
              {"cu_seqlens", kIndex, true, one, sequence_ends}},
       .out = {{"y", kActivation, false, rows, width},
               {"final_state", kState, true, sequences, conv_state}},
       .grads = bits(0, 1, 2),
       .reads_in = bits(0, 1, 2, 3, 4),
       .accumulates = bits(1, 2),
       .cheap = true},
      {.module = Module::kSwiGlu,
       .name = "swiglu",
       .summary = "y = silu(gate) up, x = gate | up",
       .source = "Shazeer 2020",
       .in = {{"x", kActivation, false, rows, twice_width}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(0),
       .reads_in = bits(0),
       .cheap = true},
      {.module = Module::kPointwise,
       .name = "pointwise",
       .summary = "y = f(x): silu, scale sigmoid, scale logsigmoid, tanh, relu^2",
       .source = "elementwise",
       .in = {{"x", kActivation, false, rows, width}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(0),
       .reads_in = bits(0),
       .accumulates = bits(0),
       .cheap = true},
      {.module = Module::kRotary,
       .name = "rotary",
       .summary = "(x1, x2) turned by (position base^(-2i/d)), halves of each head",
       .source = "Su et al. 2021",
       .in = {{"x", kActivation, false, rows, width},
              {"cu_seqlens", kIndex, true, one, sequence_ends},
              {"positions", kIndex, true, one, sequences}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(0),
       .reads_in = bits(1, 2),
       .accumulates = bits(0),
       .cheap = true},
      {.module = Module::kAttention,
       .name = "attention",
       .summary =
           "y = softmax(scale q k^T, causal, windowed) v; lse the logarithm of the softmax's sum",
       .source =
           "Vaswani et al. 2017; online softmax: Milakov and Gimelshein 2018. A plain baseline",
       .in = {{"q", kActivation, false, rows, width},
              {"k", kActivation, false, rows, key_width},
              {"v", kActivation, false, rows, key_width},
              {"cu_seqlens", kIndex, true, one, sequence_ends},
              {"positions", kIndex, true, one, sequences},
              {"k_cache", kState, true, sequences, cache_row},
              {"v_cache", kState, true, sequences, cache_row}},
       .out = {{"y", kActivation, false, rows, width}, {"lse", kSum, false, rows, heads}},
       .grads = bits(0, 1, 2),
       .reads_in = bits(0, 1, 2, 3),
       .reads_out = bits(0, 1)},
      {.module = Module::kLinearCrossEntropy,
       .name = "linear_cross_entropy",
       .summary =
           "loss = mean over targets of logsumexp(x W^T) - (x W^T)[label], in blocks of rows; "
           "the backward pass writes loss too",
       .source = "models of FLA; blocks: Wijmans et al. 2024",
       .in = {{"x", kActivation, false, rows, width},
              {"weight", kParameter, false, out, width},
              {"labels", kIndex, false, one, rows}},
       .out = {{"loss", kSum, false, one, one}},
       .grads = bits(0, 1),
       .reads_in = bits(0, 1, 2)},
      {.module = Module::kAdd,
       .name = "add",
       .summary = "y = a + b",
       .source = "elementwise",
       .in = {{"a", kActivation, false, rows, width}, {"b", kActivation, false, rows, width}},
       .out = {{"y", kActivation, false, rows, width}}},
      {.module = Module::kHgrn2LowerBounds,
       .name = "hgrn2_lower_bounds",
       .summary = "y_l = sum_{1<=m<=l} softmax_layers(x)_m",
       .source = "Qin et al. 2024 (HGRN2)",
       .in = {{"x", kParameter, false, rows, width}},
       .out = {{"y", kParameter, false, rows, width}},
       .grads = bits(0),
       .reads_in = bits(0)},
      {.module = Module::kHgrn2Gate,
       .name = "hgrn2_gate",
       .summary = "y = ln(lower + (1 - lower) s(x))",
       .source = "Qin et al. 2024 (HGRN2)",
       .in = {{"x", kActivation, false, rows, width}, {"lower", kParameter, false, one, width}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(0, 1),
       .reads_in = bits(0, 1),
       .accumulates = bits(0),
       .cheap = true},
      {.module = Module::kTokenShift,
       .name = "token_shift",
       .summary = "y_c = x_t + (x_{t-1} - x_t) mix_c, within a sequence, c = 1..taps side by side",
       .source = "Peng et al. 2025 (RWKV-7)",
       .in = {{"x", kActivation, false, rows, width},
              {"mix", kParameter, false, taps, width},
              {"initial_state", kState, true, sequences, width},
              {"cu_seqlens", kIndex, true, one, sequence_ends}},
       .out = {{"y", kActivation, false, rows, mixed_width},
               {"final_state", kState, true, sequences, width}},
       .grads = bits(0, 1),
       .reads_in = bits(0, 1, 2, 3),
       .accumulates = bits(0),
       .cheap = true},
      {.module = Module::kRwkv7Key,
       .name = "rwkv7_key",
       .summary =
           "kappa = l2norm(k k_k) a head; a = -kappa, b = kappa rate, key = k (1 + (rate - 1) k_a)",
       .source = "Peng et al. 2025 (RWKV-7)",
       .in = {{"k", kActivation, false, rows, width},
              {"rate", kActivation, false, rows, width},
              {"k_k", kParameter, false, one, width},
              {"k_a", kParameter, false, one, width}},
       .out = {{"key", kActivation, false, rows, width},
               {"a", kActivation, false, rows, width},
               {"b", kActivation, false, rows, width}},
       .grads = bits(0, 1, 2, 3),
       .reads_in = bits(0, 1, 2, 3),
       .accumulates = bits(0, 1),
       .cheap = true},
      {.module = Module::kLerp,
       .name = "lerp",
       .summary = "y = x + (first - x) s(logit)",
       .source = "Peng et al. 2025 (RWKV-7: value residual)",
       .in = {{"x", kActivation, false, rows, width},
              {"first", kActivation, false, rows, width},
              {"logit", kActivation, false, rows, width}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(0, 1, 2),
       .reads_in = bits(0, 1, 2),
       .accumulates = bits(0, 1, 2),
       .cheap = true},
      {.module = Module::kRwkv7Output,
       .name = "rwkv7_output",
       .summary = "y = (o + (sum over a head's channels of r k r_k) v) gate",
       .source = "Peng et al. 2025 (RWKV-7)",
       .in = {{"o", kActivation, false, rows, width},
              {"r", kActivation, false, rows, width},
              {"k", kActivation, false, rows, width},
              {"v", kActivation, false, rows, width},
              {"gate", kActivation, false, rows, width},
              {"r_k", kParameter, false, one, width}},
       .out = {{"y", kActivation, false, rows, width}},
       .grads = bits(0, 1, 2, 3, 4, 5),
       .reads_in = bits(0, 1, 2, 3, 4, 5),
       .accumulates = bits(0, 1, 2, 3, 4),
       .cheap = true},
  };
}

}  // namespace

const std::vector<ModuleRow>& modules() {
  static const std::vector<ModuleRow> rows = make_rows();
  return rows;
}

const ModuleRow& module_row(Module module) {
  return modules()[static_cast<size_t>(module)];
}

}  // namespace fla::ops
