// SPDX-License-Identifier: MIT
// rwkv7: a diagonal-plus-low-rank state, token shift, and values that lean on the first layer's.
#include <cmath>
#include <functional>
#include <string>

#include <fmt/format.h>

#include "model/families/common.h"

namespace fla::model {
namespace {

constexpr float kDecayScale = -0.6065306597F;  // -e^(-1/2): the lowest log decay

int64_t heads_of(const Config& c) {
  return c.is_null("num_heads") ? c.integer("hidden_size") / c.integer("head_dim")
                                : c.integer("num_heads");
}

int64_t mlp_width(const Config& c) {
  if (!c.is_null("intermediate_size"))
    return c.integer("intermediate_size");
  return (c.integer("hidden_size") * c.integer("hidden_ratio") + 31) / 32 * 32;
}

std::vector<float> ramp(int64_t size, const std::function<double(double)>& value) {
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i)
    values.push_back(static_cast<float>(value(static_cast<double>(i))));
  return values;
}

/// What starts by channel and depth, as the layer's author has it.
struct Ramps {
  Ramps(const Config& c, int64_t layer)
      : hidden(c.integer("hidden_size")),
        head_dim(hidden / heads_of(c)),
        depth(c.integer("num_hidden_layers") > 1
                  ? static_cast<double>(layer) /
                        static_cast<double>(c.integer("num_hidden_layers") - 1)
                  : 0.0),
        rest(1.0 -
             static_cast<double>(layer) / static_cast<double>(c.integer("num_hidden_layers"))) {}

  std::vector<float> mix(double power) const {
    return ramp(hidden,
                [&](double i) { return 1.0 - std::pow(i / static_cast<double>(hidden), power); });
  }
  double slope(double i) const { return i / static_cast<double>(hidden - 1) - 0.5; }
  double zigzag(double i) const {
    const double half = static_cast<double>(head_dim - 1) / 2;
    const double z = (std::fmod(i, static_cast<double>(head_dim)) - half) / half;
    return z * std::abs(z);
  }
  std::vector<float> decay() const {
    return ramp(hidden, [&](double i) {
      const double base =
          -6 + 6 * std::pow(i / static_cast<double>(hidden - 1), 1 + std::pow(depth, 0.3));
      return base + 0.5 + 2.5 * zigzag(i);
    });
  }

  int64_t hidden;
  int64_t head_dim;
  double depth;
  double rest;
};

/// x A B (+ bias), with a function between.
Tensor low_rank(Builder& b, Tensor x, const std::string& name, int64_t rank, Function between,
                std::vector<float> bias) {
  const float second = 0.1F / std::sqrt(static_cast<float>(b.width(x)));
  // The first matrix starts at 0, so that the bias alone speaks.
  Tensor inner = b.linear(x, {{.name = name + ".lora.0", .rows = rank, .init = Init::kConstant}});
  if (between != Function::kIdentity)
    inner = b.pointwise(inner, between);
  const std::string bias_name = bias.empty() ? "" : name + ".lora.2.bias";
  return b.linear(inner, {{.name = name + ".lora.2",
                           .rows = b.config().integer("hidden_size"),
                           .scale = second,
                           .bias = bias_name,
                           .bias_values = std::move(bias)}});
}

struct Layer {
  Builder& b;
  const Config& c;
  int64_t index;
  Ramps ramps;

  Tensor part(Tensor mixed, int64_t i) const {
    return b.columns(mixed, i * ramps.hidden, ramps.hidden);
  }
  Tensor square(Tensor x, std::string_view name, double gain) const {
    const double scale = gain / std::sqrt(static_cast<double>(ramps.hidden));
    return b.linear(x, {{.name = name, .rows = ramps.hidden, .scale = static_cast<float>(scale)}});
  }

  Tensor time_mix(Tensor x, Tensor stream, Tensor* v_first) const {
    const int64_t hidden = ramps.hidden;
    const int64_t heads = heads_of(c);
    const Tensor mix = b.stacked({{"x_r", ramps.mix(0.2 * ramps.rest)},
                                  {"x_w", ramps.mix(0.9 * ramps.rest)},
                                  {"x_k", ramps.mix(0.7 * ramps.rest)},
                                  {"x_v", ramps.mix(0.7 * ramps.rest)},
                                  {"x_a", ramps.mix(0.9 * ramps.rest)},
                                  {"x_g", ramps.mix(0.2 * ramps.rest)}},
                                 {1, 1, hidden});
    const Tensor mixed = b.token_shift(x, mix);
    const Tensor r = square(part(mixed, 0), "r_proj", 1.0);
    const Tensor raw_k = square(part(mixed, 2), "k_proj", 0.1);
    Tensor v = square(part(mixed, 3), "v_proj", 1.0);
    const Tensor w =
        b.pointwise(low_rank(b, part(mixed, 1), "w_lora", c.integer("decay_low_rank_dim"),
                             Function::kTanh, ramps.decay()),
                    Function::kSigmoid, kDecayScale);
    if (index == 0) {
      *v_first = v;
    } else {
      const Tensor logit =
          low_rank(b, part(mixed, 3), "v_lora", c.integer("v_low_rank_dim"), Function::kIdentity,
                   ramp(hidden, [&](double i) { return 0.73 - 0.4 * ramps.slope(i); }));
      v = b.module({.module = Module::kLerp, .width = hidden}, {v, *v_first, logit});
    }
    const Tensor rate = b.pointwise(
        low_rank(
            b, part(mixed, 4), "a_lora", c.integer("a_low_rank_dim"), Function::kIdentity,
            ramp(hidden,
                 [&](double i) { return -0.19 + 0.3 * ramps.zigzag(i) + 0.4 * ramps.slope(i); })),
        Function::kSigmoid);
    const Tensor gate = low_rank(b, part(mixed, 5), "g_lora", c.integer("gate_low_rank_dim"),
                                 Function::kSigmoid, {});
    const Tensor k_k =
        b.vector("k_k", hidden, Init::kValues, 0.0F,
                 ramp(hidden, [&](double i) { return 0.71 - 0.1 * ramps.slope(i); }));
    const Tensor k_a = b.vector("k_a", hidden, Init::kConstant, 1.02F);
    const std::vector<Tensor> key = b.module_outputs(
        {.module = Module::kRwkv7Key, .width = hidden, .heads = heads, .eps = 1e-6F},
        {raw_k, rate, k_k, k_a});
    const int64_t head_dim = ramps.head_dim;
    const Tensor o = b.op("rwkv7", head_sizes(heads, heads, head_dim, head_dim),
                          {{Slot::kQ, r},
                           {Slot::kG, w},
                           {Slot::kK, key[slot::Rwkv7Key::key]},
                           {Slot::kV, v},
                           {Slot::kA, key[slot::Rwkv7Key::a]},
                           {Slot::kB, key[slot::Rwkv7Key::b]}});
    const double eps = static_cast<double>(head_dim) * c.number("norm_eps");
    const Tensor n = b.layer_norm(o, "g_norm", heads, eps);
    const Tensor r_k = b.parameter("r_k", 1, hidden, {heads, head_dim}, Init::kConstant, -0.04F);
    const Tensor y = b.module({.module = Module::kRwkv7Output, .width = hidden, .heads = heads},
                              {n, r, key[slot::Rwkv7Key::key], v, gate, r_k});
    const float bound =
        1.0F / std::sqrt(2.0F * static_cast<float>(hidden * c.integer("num_hidden_layers")));
    return b.linear(y, {{.name = "o_proj", .rows = hidden, .init = Init::kUniform, .scale = bound}},
                    stream);
  }

  Tensor channel_mix(Tensor x, Tensor stream) const {
    const int64_t hidden = ramps.hidden;
    const int64_t inner = mlp_width(c);
    const Tensor shifted =
        b.token_shift(x, b.stacked({{"x_k", ramps.mix(std::pow(ramps.rest, 4))}}, {hidden}));
    const float scale = 1.0F / std::sqrt(static_cast<float>(std::max(hidden, inner)));
    const Tensor key = b.linear(shifted, {{.name = "key", .rows = inner, .scale = scale}});
    const Tensor squared = b.pointwise(key, Function::kReluSquared);
    return b.linear(squared, {{.name = "value", .rows = hidden, .init = Init::kConstant}}, stream);
  }
};

void build(Builder& b) {
  const Config& c = b.config();
  const int64_t vocab = c.integer("vocab_size");
  const int64_t hidden = c.integer("hidden_size");
  b.enter(-1, "model.");
  const Tensor table =
      b.parameter("embeddings.weight", vocab, hidden, {vocab, hidden}, Init::kUniform, 1e-4F);
  Tensor stream = b.embedding(b.tokens(), table);
  Tensor v_first;
  for (int64_t i = 0; i < c.integer("num_hidden_layers"); ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const auto index = static_cast<int32_t>(i);
    const Layer layer = {b, c, i, Ramps(c, i)};
    b.enter(index, prefix);
    if (i == 0)
      stream = b.layer_norm(stream, "pre_norm");
    b.keep(stream);
    const Tensor x = b.layer_norm(stream, "attn_norm");
    b.enter(index, prefix + "attn.");
    stream = layer.time_mix(x, stream, &v_first);
    b.enter(index, prefix);
    const Tensor y = b.layer_norm(stream, "ffn_norm");
    b.enter(index, prefix + "ffn.");
    stream = layer.channel_mix(y, stream);
  }
  b.keep(v_first);
  b.keep(stream);
  b.enter(-1, "model.");
  const double larger = static_cast<double>(std::max(vocab, hidden));
  const double gain =
      vocab > hidden ? 0.5 * std::sqrt(static_cast<double>(vocab) / static_cast<double>(hidden))
                     : 0.5;
  finish(b, b.layer_norm(b.last(stream), "norm"), table, gain / std::sqrt(larger));
}

Status refuse(std::string_view key, std::string_view expected) {
  return {Code::kInvalidArgument, fmt::format("{} must be {} (no other is built)", key, expected)};
}

Status check(const Config& c) {
  if (Status status = check_heads("hidden_size", c.integer("hidden_size"), heads_of(c));
      !status.ok())
    return status;
  if (!c.flag("norm_first") || !c.flag("norm_bias"))
    return refuse("norm_first and norm_bias", "true");
  if (c.text("hidden_act") != "sqrelu")
    return refuse("hidden_act", "sqrelu");
  if (!c.is_null("attn"))
    return refuse("attn", "null");
  const int64_t head_dim = c.integer("hidden_size") / heads_of(c);
  return check_head_dims(head_dim, head_dim);
}

}  // namespace

Family rwkv7_family() {
  return {.name = "rwkv7",
          .architecture = "RWKV7ForCausalLM",
          .source = "RWKV-7, 2025",
          .keys = with_common_keys({{"attn_mode", ValueType::kText, std::string("chunk")},
                                    {"head_dim", ValueType::kInteger, int64_t{64}},
                                    {"num_heads", ValueType::kInteger},
                                    {"decay_low_rank_dim", ValueType::kInteger, int64_t{64}},
                                    {"gate_low_rank_dim", ValueType::kInteger, int64_t{128}},
                                    {"a_low_rank_dim", ValueType::kInteger, int64_t{64}},
                                    {"v_low_rank_dim", ValueType::kInteger, int64_t{16}},
                                    {"hidden_act", ValueType::kText, std::string("sqrelu")},
                                    {"norm_first", ValueType::kFlag, true},
                                    {"norm_bias", ValueType::kFlag, true},
                                    {"norm_eps", ValueType::kNumber, 1e-5},
                                    {"use_l2warp", ValueType::kFlag, true},
                                    {"value_dim", ValueType::kJson}}),
          .build = build,
          .check = check};
}

}  // namespace fla::model
