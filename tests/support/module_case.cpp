// SPDX-License-Identifier: MIT
// The list of module cases: tails of vectors and blocks, one row, odd widths, heads, packed
// sequences with empty and one-token ones, strided rows, optional inputs, sums onto gradients.
#include "support/module_case.h"

#include <ostream>
#include <utility>

namespace fla::test {
namespace {

using Cases = std::vector<ModuleCase>;

constexpr uint32_t bit(size_t slot) {
  return 1U << static_cast<unsigned>(slot);
}

/// Adds cases of one module to a list, each with its own seed.
class Writer {
 public:
  Writer(Module module, Cases* cases) : module_(module), cases_(cases) {}

  ModuleCase& add(std::string_view name, int64_t rows, int64_t width) {
    ModuleCase& c = cases_->emplace_back();
    c.name = std::string(ops::module_row(module_).name) + "_" + std::string(name);
    c.desc.module = module_;
    c.desc.rows = rows;
    c.desc.width = width;
    c.seed = cases_->size();
    return c;
  }
  /// A packed case; `boundaries` is the slot of cu_seqlens.
  ModuleCase& packed(std::string_view name, std::vector<int64_t> cu_seqlens, int64_t width,
                     size_t boundaries) {
    ModuleCase& c = add(name, cu_seqlens.back(), width);
    c.desc.sequences = static_cast<int64_t>(cu_seqlens.size()) - 1;
    c.desc.given |= bit(boundaries);
    c.cu_seqlens = std::move(cu_seqlens);
    return c;
  }

 private:
  Module module_;
  Cases* cases_;
};

// Empty sequences at both ends and inside, sequences of one token, and ends on and beside 64.
const std::vector<int64_t> kPacked = {0, 0, 1, 3, 3, 67, 68, 132, 150, 150};
const std::vector<int64_t> kShort = {0, 1, 2, 2, 9};

void linear(Cases* cases) {
  using S = slot::Linear;
  Writer w(Module::kLinear, cases);
  w.add("plain", 33, 64).desc.out = 48;
  w.add("one_row", 1, 128).desc.out = 272;
  w.add("tails", 37, 19).desc.out = 23;
  w.add("many_rows", 1030, 40).desc.out = 24;
  ModuleCase& bias = w.add("bias", 70, 32);
  bias.desc.out = 50;
  bias.desc.given = bit(S::bias);
  ModuleCase& residual = w.add("residual_strided", 65, 48);
  residual.desc.out = 40;
  residual.desc.given = bit(S::residual);
  residual.layout = Layout::kFusedSlice;
  ModuleCase& in_place = w.add("residual_in_place", 20, 48);
  in_place.desc.out = 64;
  in_place.desc.given = bit(S::residual);
  in_place.in_place = {{S::y, S::residual}};
  ModuleCase& all = w.add("all_accumulate_padded", 130, 36);
  all.desc.out = 27;
  all.desc.given = bit(S::bias) | bit(S::residual);
  all.accumulate = bit(S::x) | bit(S::weight) | bit(S::bias);
  all.layout = Layout::kPaddedRows;
}

void embedding(Cases* cases) {
  Writer w(Module::kEmbedding, cases);
  w.add("plain", 90, 64).desc.out = 40;
  w.add("few_ids", 300, 8).desc.out = 3;
  w.add("one_row_odd", 1, 7).desc.out = 11;
  ModuleCase& strided = w.add("strided_accumulate", 65, 24);
  strided.desc.out = 500;
  strided.layout = Layout::kFusedSlice;
  strided.accumulate = bit(slot::Embedding::table);
}

void rms_norm(Cases* cases) {
  using S = slot::RmsNorm;
  Writer w(Module::kRmsNorm, cases);
  const auto add = [&](std::string_view name, int64_t rows, int64_t width,
                       int64_t heads) -> ModuleCase& {
    ModuleCase& c = w.add(name, rows, width);
    c.desc.heads = heads;
    c.desc.eps = 1e-5F;
    return c;
  };
  add("plain", 70, 256, 1);
  add("wide", 5, 4096, 1);
  add("one_row_odd", 1, 37, 1);
  add("many_rows", 700, 20, 1).accumulate = bit(S::x) | bit(S::weight);
  add("heads", 33, 192, 3).layout = Layout::kPaddedRows;
  add("shared_weight", 65, 256, 4).desc.shared_weight = true;
  const auto gated = [&](std::string_view name, Function function, int64_t width,
                         int64_t heads) -> ModuleCase& {
    ModuleCase& c = add(name, 67, width, heads);
    c.desc.given = bit(S::gate);
    c.desc.function = function;
    return c;
  };
  ModuleCase& kda = gated("gate_sigmoid_shared", Function::kSigmoid, 256, 2);
  kda.desc.shared_weight = true;
  kda.layout = Layout::kFusedSlice;
  gated("gate_silu", Function::kSilu, 96, 1).accumulate = bit(S::x) | bit(S::weight) | bit(S::gate);
  ModuleCase& mamba = gated("gate_first", Function::kSilu, 104, 2);
  mamba.desc.gate_first = true;
  mamba.accumulate = bit(S::gate);
  gated("gate_identity_odd", Function::kIdentity, 39, 3).desc.gate_first = true;
}

void layer_norm(Cases* cases) {
  using S = slot::LayerNorm;
  Writer w(Module::kLayerNorm, cases);
  const auto add = [&](std::string_view name, int64_t rows, int64_t width,
                       int64_t heads) -> ModuleCase& {
    ModuleCase& c = w.add(name, rows, width);
    c.desc.heads = heads;
    c.desc.eps = 1e-5F;
    return c;
  };
  add("plain", 70, 256, 1);
  add("one_row_odd", 1, 37, 1);
  add("groups", 65, 256, 4).layout = Layout::kFusedSlice;
  add("accumulate", 300, 40, 2).accumulate = bit(S::x) | bit(S::weight) | bit(S::bias);
}

void short_conv(Cases* cases) {
  using S = slot::ShortConv;
  Writer w(Module::kShortConv, cases);
  const auto dense = [&](std::string_view name, int64_t rows, int64_t width,
                         int64_t batch) -> ModuleCase& {
    ModuleCase& c = w.add(name, rows, width);
    c.desc.taps = 4;
    c.desc.batch = batch;
    c.desc.function = Function::kSilu;
    return c;
  };
  const auto packed = [&](std::string_view name, const std::vector<int64_t>& ends,
                          int64_t width) -> ModuleCase& {
    ModuleCase& c = w.packed(name, ends, width, S::cu_seqlens);
    c.desc.taps = 4;
    c.desc.function = Function::kSilu;
    return c;
  };
  dense("dense", 140, 64, 2);
  dense("one_row_odd", 1, 37, 1).desc.given = bit(S::bias);
  dense("bias_accumulate", 66, 40, 1).desc.given = bit(S::bias);
  cases->back().accumulate = bit(S::weight) | bit(S::bias);
  packed("packed_strided", kPacked, 72).layout = Layout::kFusedSlice;
  ModuleCase& states = packed("packed_states", kPacked, 24);
  states.desc.given |= bit(S::initial_state) | bit(S::bias);
  states.desc.given_out = bit(S::final_state);
  packed("packed_final_state", kShort, 136).desc.given_out = bit(S::final_state);
  ModuleCase& decode = dense("decode_in_place", 6, 48, 6);
  decode.desc.given = bit(S::initial_state);
  decode.desc.given_out = bit(S::final_state);
  decode.in_place = {{S::final_state, S::initial_state}};
  ModuleCase& in_place = packed("packed_in_place", kPacked, 16);
  in_place.desc.given |= bit(S::initial_state);
  in_place.desc.given_out = bit(S::final_state);
  in_place.in_place = {{S::final_state, S::initial_state}};
  ModuleCase& identity = dense("identity_three_taps", 50, 20, 5);
  identity.desc.taps = 3;
  identity.desc.function = Function::kIdentity;
  packed("two_taps", kShort, 8).desc.taps = 2;
}

void pointwise(Cases* cases) {
  Writer w(Module::kPointwise, cases);
  const auto add = [&](std::string_view name, Function function, int64_t rows,
                       int64_t width) -> ModuleCase& {
    ModuleCase& c = w.add(name, rows, width);
    c.desc.function = function;
    return c;
  };
  add("identity", Function::kIdentity, 9, 16);
  add("silu", Function::kSilu, 65, 72);
  add("sigmoid_scaled", Function::kSigmoid, 65, 37).desc.scale = -0.6065306597F;
  add("logsigmoid_scaled", Function::kLogSigmoid, 33, 64).desc.scale = 0.0625F;
  add("tanh_strided", Function::kTanh, 33, 40).layout = Layout::kFusedSlice;
  add("relu_squared", Function::kReluSquared, 1, 1000);
  add("silu_accumulate", Function::kSilu, 40, 24).accumulate = bit(slot::Pointwise::x);
  add("tanh_in_place", Function::kTanh, 40, 24).in_place = {{0, 0}};
}

void elementwise(Cases* cases) {
  Writer swiglu(Module::kSwiGlu, cases);
  swiglu.add("plain", 65, 64);
  swiglu.add("one_row_odd", 1, 37);
  swiglu.add("strided", 130, 88).layout = Layout::kFusedSlice;
  Writer add(Module::kAdd, cases);
  add.add("plain", 65, 64);
  add.add("odd_strided", 33, 37).layout = Layout::kFusedSlice;
  add.add("in_place_a", 20, 40).in_place = {{0, slot::Add::a}};
  add.add("in_place_b", 20, 40).in_place = {{0, slot::Add::b}};
  Writer lerp(Module::kLerp, cases);
  lerp.add("plain", 65, 64);
  lerp.add("odd_strided_accumulate", 33, 37).layout = Layout::kFusedSlice;
  cases->back().accumulate = bit(slot::Lerp::x) | bit(slot::Lerp::first) | bit(slot::Lerp::logit);
  Writer bounds(Module::kHgrn2LowerBounds, cases);
  bounds.add("plain", 6, 64);
  bounds.add("one_layer", 1, 16);
  bounds.add("odd", 3, 37);
  Writer gate(Module::kHgrn2Gate, cases);
  gate.add("plain", 300, 64);
  gate.add("odd_strided_accumulate", 33, 37).layout = Layout::kFusedSlice;
  cases->back().accumulate = bit(slot::Hgrn2Gate::x);
}

void rotary(Cases* cases) {
  using S = slot::Rotary;
  Writer w(Module::kRotary, cases);
  w.add("dense", 66, 128).desc.batch = 2;
  cases->back().desc.heads = 2;
  ModuleCase& packed = w.packed("packed_strided", kPacked, 96, S::cu_seqlens);
  packed.desc.heads = 3;
  packed.layout = Layout::kFusedSlice;
  ModuleCase& decode = w.add("decode_positions", 3, 36);
  decode.desc.heads = 2;
  decode.desc.batch = 3;
  decode.desc.given = bit(S::positions);
  decode.positions = {0, 17, 901};
  ModuleCase& both = w.packed("packed_positions_accumulate", kShort, 24, S::cu_seqlens);
  both.desc.given |= bit(S::positions);
  both.desc.base = 500.0F;
  both.positions = {5, 0, 3, 100};
  both.accumulate = bit(S::x);
}

void attention(Cases* cases) {
  using S = slot::Attention;
  Writer w(Module::kAttention, cases);
  const auto head = [](ModuleCase& c, int64_t heads, int64_t kv_heads) -> ModuleCase& {
    c.desc.heads = heads;
    c.desc.kv_heads = kv_heads;
    c.desc.scale = 0.2F;
    return c;
  };
  head(w.add("dense", 140, 128), 2, 0).desc.batch = 2;
  head(w.add("grouped_strided", 70, 128), 4, 2).layout = Layout::kFusedSlice;
  head(w.add("one_row", 1, 64), 1, 0);
  head(w.add("window", 150, 64), 1, 0).desc.window = 37;
  head(w.packed("packed", kPacked, 96, S::cu_seqlens), 3, 1);
  head(w.packed("packed_window_odd_head", kPacked, 80, S::cu_seqlens), 4, 2).desc.window = 5;
  const auto cached = [&](ModuleCase& c, int64_t cache_length) -> ModuleCase& {
    c.desc.given |= bit(S::positions) | bit(S::k_cache) | bit(S::v_cache);
    c.desc.cache_length = cache_length;
    c.backward = false;
    return c;
  };
  ModuleCase& decode = cached(head(w.add("decode", 3, 128), 2, 1), 90);
  decode.desc.batch = 3;
  decode.positions = {0, 64, 89};
  ModuleCase& chunk = cached(head(w.packed("cached_chunks", kShort, 64, S::cu_seqlens), 2, 0), 20);
  chunk.desc.window = 6;
  chunk.positions = {0, 19, 4, 11};
}

void linear_cross_entropy(Cases* cases) {
  Writer w(Module::kLinearCrossEntropy, cases);
  w.add("one_block", 40, 64).desc.out = 50;
  w.add("blocks", 150, 16).desc.out = 100;
  w.add("one_row_odd", 1, 19).desc.out = 37;
  w.add("wide_vocabulary_strided", 70, 32).desc.out = 1000;
  cases->back().layout = Layout::kFusedSlice;
  w.add("no_target", 20, 16).desc.out = 30;
  cases->back().any_target = false;
}

void rwkv7(Cases* cases) {
  using Shift = slot::TokenShift;
  Writer shift(Module::kTokenShift, cases);
  const auto taps = [](ModuleCase& c, int64_t count) -> ModuleCase& {
    c.desc.taps = count;
    return c;
  };
  taps(shift.add("dense", 140, 64), 6).desc.batch = 2;
  taps(shift.add("one_row_odd", 1, 37), 1);
  taps(shift.packed("packed_strided", kPacked, 24, Shift::cu_seqlens), 2).layout =
      Layout::kFusedSlice;
  ModuleCase& states = taps(shift.packed("packed_states", kPacked, 40, Shift::cu_seqlens), 3);
  states.desc.given |= bit(Shift::initial_state);
  states.desc.given_out = bit(Shift::final_state);
  states.accumulate = bit(Shift::x);
  ModuleCase& decode = taps(shift.add("decode_in_place", 5, 32), 6);
  decode.desc.batch = 5;
  decode.desc.given = bit(Shift::initial_state);
  decode.desc.given_out = bit(Shift::final_state);
  decode.in_place = {{Shift::final_state, Shift::initial_state}};
  const auto heads = [](ModuleCase& c, int64_t count) -> ModuleCase& {
    c.desc.heads = count;
    c.desc.eps = 1e-6F;
    return c;
  };
  Writer key(Module::kRwkv7Key, cases);
  heads(key.add("plain", 300, 128), 2);
  heads(key.add("one_row_odd", 1, 37), 1);
  heads(key.add("strided_accumulate", 33, 96), 3).layout = Layout::kFusedSlice;
  cases->back().accumulate = bit(slot::Rwkv7Key::k) | bit(slot::Rwkv7Key::rate);
  Writer output(Module::kRwkv7Output, cases);
  heads(output.add("plain", 300, 128), 2);
  heads(output.add("one_row_odd", 1, 37), 1);
  heads(output.add("strided_accumulate", 33, 96), 3).layout = Layout::kFusedSlice;
  cases->back().accumulate = bit(0) | bit(1) | bit(2) | bit(3) | bit(4);
}

}  // namespace

std::vector<ModuleCase> all_module_cases() {
  Cases cases;
  for (const auto list : {linear, embedding, rms_norm, layer_norm, short_conv, pointwise,
                          elementwise, rotary, attention, linear_cross_entropy, rwkv7}) {
    list(&cases);
  }
  return cases;
}

void PrintTo(const ModuleCase& test_case, std::ostream* out) {
  *out << test_case.name;
}

}  // namespace fla::test
