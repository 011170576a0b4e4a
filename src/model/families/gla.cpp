// SPDX-License-Identifier: MIT
// gla, simple_gla, retnet: additive states that decay by a gate a channel, by one a head, and by a
// constant.
#include <string>

#include <fmt/format.h>

#include "model/families/common.h"

namespace fla::model {
namespace {

constexpr float kGateLogitNormalizer = 16.0F;
constexpr int64_t kGateLowRank = 16;

int64_t scaled(const Config& c, std::string_view expansion) {
  return static_cast<int64_t>(static_cast<double>(c.integer("hidden_size")) * c.number(expansion));
}

/// Sizes of one layer.
struct Sizes {
  explicit Sizes(const Config& c)
      : heads(c.integer("num_heads")), keys(scaled(c, "expand_k")), values(scaled(c, "expand_v")) {}
  OpDesc desc() const { return head_sizes(heads, heads, keys / heads, values / heads); }

  int64_t heads, keys, values;
};

/// q | k | v (| g) and its parts; the convolution where the config has it.
struct Projected {
  Tensor all, q, k, v, gate;
};

Projected project(Builder& b, Tensor x, const Sizes& s, std::string_view extra = "",
                  int64_t extra_rows = 0) {
  const Config& c = b.config();
  const int64_t gates = c.flag("use_output_gate") ? s.values : 0;
  Projected p;
  p.all = b.linear(x, {{"q_proj", s.keys},
                       {"k_proj", s.keys},
                       {"v_proj", s.values},
                       {"g_proj", gates},
                       {extra, extra_rows}});
  Tensor qkv = b.columns(p.all, 0, 2 * s.keys + s.values);
  if (c.flag("use_short_conv")) {
    qkv = b.short_conv(qkv, c.integer("conv_size"),
                       {{"q_conv1d", s.keys}, {"k_conv1d", s.keys}, {"v_conv1d", s.values}},
                       Function::kSilu);
  }
  p.q = b.columns(qkv, 0, s.keys);
  p.k = b.columns(qkv, s.keys, s.keys);
  p.v = b.columns(qkv, 2 * s.keys, s.values);
  if (gates > 0)
    p.gate = b.columns(p.all, 2 * s.keys + s.values, gates);
  return p;
}

Tensor finish_layer(Builder& b, Tensor o, const Projected& p, const Sizes& s, Tensor stream) {
  const bool fused =
      p.gate.given() && b.config().flag("fuse_norm");  // the name of the weight alone depends on it
  const Tensor y =
      b.rms_norm(o, fused ? "g_norm_swish_gate" : "g_norm", s.heads, true, p.gate, Function::kSilu);
  return b.linear(y, {{"o_proj", b.width(stream)}}, stream);
}

Tensor gla_mixer(Builder& b, Tensor x, Tensor stream) {
  const Sizes s(b.config());
  const Projected p = project(b, x, s, "gk_proj.0", kGateLowRank);
  const int64_t first = 2 * s.keys + s.values + (p.gate.given() ? s.values : 0);
  const Tensor raw = b.linear(b.columns(p.all, first, kGateLowRank),
                              {{.name = "gk_proj.1", .rows = s.keys, .bias = "gk_proj.1.bias"}});
  const Tensor g = b.pointwise(raw, Function::kLogSigmoid, 1.0F / kGateLogitNormalizer);
  const Tensor o =
      b.op("gla", s.desc(), {{Slot::kQ, p.q}, {Slot::kK, p.k}, {Slot::kV, p.v}, {Slot::kG, g}});
  return finish_layer(b, o, p, s, stream);
}

Tensor simple_gla_mixer(Builder& b, Tensor x, Tensor stream) {
  const Sizes s(b.config());
  const Projected p = project(b, x, s);
  const Tensor raw = b.linear(x, {{.name = "gk_proj", .rows = s.heads, .bias = "gk_proj.bias"}});
  const Tensor g = b.pointwise(raw, Function::kLogSigmoid, 1.0F / kGateLogitNormalizer);
  const Tensor o = b.op("simple_gla", s.desc(),
                        {{Slot::kQ, p.q}, {Slot::kK, p.k}, {Slot::kV, p.v}, {Slot::kG, g}});
  return finish_layer(b, o, p, s, stream);
}

Tensor retnet_mixer(Builder& b, Tensor x, Tensor stream) {
  constexpr double kRotaryBase = 10000.0;
  const Sizes s(b.config());
  const Projected p = project(b, x, s);
  const Tensor qk = b.rotary(b.columns(p.all, 0, 2 * s.keys), 2 * s.heads, kRotaryBase);
  const Tensor o = b.op("retention", s.desc(),
                        {{Slot::kQ, b.columns(qk, 0, s.keys)},
                         {Slot::kK, b.columns(qk, s.keys, s.keys)},
                         {Slot::kV, p.v}});
  return finish_layer(b, o, p, s, stream);
}

Status refuse(std::string_view key, std::string_view expected) {
  return {Code::kInvalidArgument,
          fmt::format("{} is set, expected {} (no other is built)", key, expected)};
}

Status check(const Config& c) {
  const int64_t heads = c.integer("num_heads");
  for (std::string_view key : {"expand_k", "expand_v"}) {
    if (Status status = check_heads(fmt::format("{} of hidden_size", key), scaled(c, key), heads);
        !status.ok())
      return status;
  }
  if (c.knows("num_kv_heads") && c.integer_or("num_kv_heads", heads) != heads)
    return refuse("num_kv_heads", "null or num_heads");
  if (c.knows("feature_map") && !c.is_null("feature_map"))
    return refuse("feature_map", "null");
  if (c.knows("clamp_min") && !c.is_null("clamp_min"))
    return refuse("clamp_min", "null");
  return check_head_dims(scaled(c, "expand_k") / heads, scaled(c, "expand_v") / heads);
}

/// retnet's layer never sees the convolution keys of its config, so that such a model has none.
Status check_retnet(const Config& c) {
  if (c.flag("use_short_conv"))
    return refuse("use_short_conv", "false");
  if (scaled(c, "expand_k") / c.integer("num_heads") % 2 != 0)
    return {Code::kInvalidArgument,
            "a head of retnet has an odd number of key channels, expected an even one"};
  return check(c);
}

std::vector<ConfigKey> layer_keys(double expand_k, double expand_v, int64_t num_heads, bool conv) {
  return {{"attn_mode", ValueType::kText, std::string("chunk")},
          {"expand_k", ValueType::kNumber, expand_k},
          {"expand_v", ValueType::kNumber, expand_v},
          {"num_heads", ValueType::kInteger, num_heads},
          {"num_kv_heads", ValueType::kInteger},
          {"feature_map", ValueType::kText},
          {"use_short_conv", ValueType::kFlag, conv},
          {"conv_size", ValueType::kInteger, int64_t{4}},
          {"use_output_gate", ValueType::kFlag, true}};
}

}  // namespace

Family gla_family() {
  Family family = {.name = "gla",
                   .architecture = "GLAForCausalLM",
                   .source = "GLA, 2023",
                   .keys = with_common_keys({{"clamp_min", ValueType::kNumber},
                                             {"use_gk", ValueType::kFlag, true},
                                             {"use_gv", ValueType::kFlag, false}}),
                   .mixer = gla_mixer,
                   .check = check};
  for (ConfigKey& key : layer_keys(0.5, 1.0, 4, false))
    family.keys.push_back(std::move(key));
  return family;
}

Family simple_gla_family() {
  Family family = {.name = "simple_gla",
                   .architecture = "SimpleGLAForCausalLM",
                   .source = "GLA, 2023, with a gate a head",
                   .keys = with_common_keys({}),
                   .mixer = simple_gla_mixer,
                   .check = check};
  for (ConfigKey& key : layer_keys(0.5, 1.0, 4, true))
    family.keys.push_back(std::move(key));
  return family;
}

Family retnet_family() {
  Family family = {.name = "retnet",
                   .architecture = "RetNetForCausalLM",
                   .source = "RetNet, 2023",
                   .keys = with_common_keys({{"hidden_ratio", ValueType::kInteger, int64_t{2}}}),
                   .mixer = retnet_mixer,
                   .check = check_retnet};
  for (ConfigKey& key : layer_keys(1.0, 2.0, 8, false))
    family.keys.push_back(std::move(key));
  return family;
}

}  // namespace fla::model
