// SPDX-License-Identifier: MIT
// kda: Kimi Delta Attention, a delta rule whose state decays by a gate a channel.
#include "model/families/common.h"

namespace fla::model {
namespace {

int64_t value_heads(const Config& c) {
  return c.integer_or("num_v_heads", c.integer("num_heads"));
}

int64_t value_dim(const Config& c) {  // of a head
  return static_cast<int64_t>(static_cast<double>(c.integer("head_dim")) * c.number("expand_v"));
}

/// q | k | v after the convolution, or after its activation alone.
Tensor convolve(Builder& b, Tensor qkv, int64_t keys, int64_t values) {
  if (!b.config().flag("use_short_conv"))
    return b.pointwise(qkv, Function::kSilu);
  return b.short_conv(qkv, b.config().integer("conv_size"),
                      {{"q_conv1d", keys}, {"k_conv1d", keys}, {"v_conv1d", values}},
                      Function::kSilu);
}

Tensor mixer(Builder& b, Tensor x, Tensor stream) {
  const Config& c = b.config();
  const int64_t heads = c.integer("num_heads");
  const int64_t key_dim = c.integer("head_dim");
  const int64_t v_heads = value_heads(c);
  const int64_t v_dim = value_dim(c);
  const int64_t keys = heads * key_dim;
  const int64_t values = v_heads * v_dim;
  const Tensor all = b.linear(x, {{"q_proj", keys},
                                  {"k_proj", keys},
                                  {"v_proj", values},
                                  {"f_proj.0", v_dim},
                                  {"g_proj.0", v_dim},
                                  {"b_proj", v_heads}});
  const int64_t low = 2 * keys + values;
  const Tensor qkv = convolve(b, b.columns(all, 0, low), keys, values);
  const Tensor g = b.linear(b.columns(all, low, v_dim), {{"f_proj.1", v_heads * key_dim}});
  const Tensor gate = b.linear(b.columns(all, low + v_dim, v_dim),
                               {{.name = "g_proj.1", .rows = values, .bias = "g_proj.1.bias"}});
  const bool safe_gate = c.flag("safe_gate");
  const bool bounded = !c.is_null("lower_bound");
  OpDesc desc = head_sizes(heads, v_heads, key_dim, v_dim);
  desc.l2norm_qk = true;
  desc.beta_sigmoid = true;
  desc.allow_neg_eigval = c.flag("allow_neg_eigval");
  desc.safe_gate = safe_gate;
  desc.gate_input = bounded ? GateInput::kLowerBound : GateInput::kSoftplus;
  desc.lower_bound = bounded ? static_cast<float>(c.number("lower_bound")) : 0.0F;
  const Tensor o =
      b.op("kda", desc,
           {{Slot::kQ, b.columns(qkv, 0, keys)},
            {Slot::kK, b.columns(qkv, keys, keys)},
            {Slot::kV, b.columns(qkv, 2 * keys, values)},
            {Slot::kG, g},
            {Slot::kBeta, b.columns(all, low + 2 * v_dim, v_heads)},
            {Slot::kALog,
             b.vector("A_log", v_heads, safe_gate ? Init::kConstant : Init::kLogUniform16, 0.0F)},
            {Slot::kDtBias, b.vector("dt_bias", v_heads * key_dim, Init::kInverseSoftplus, 0.0F)}});
  const Tensor y = b.rms_norm(o, "o_norm", v_heads, true, gate, Function::kSigmoid);
  return b.linear(y, {{"o_proj", b.width(stream)}}, stream);
}

Status check(const Config& c) {
  if (Status status = check_heads("num_v_heads", value_heads(c), c.integer("num_heads"));
      !status.ok())
    return status;
  return check_head_dims(c.integer("head_dim"), value_dim(c));
}

}  // namespace

Family kda_family() {
  return {.name = "kda",
          .architecture = "KDAForCausalLM",
          .source = "Kimi Linear, 2025",
          .keys = with_common_keys({{"attn_mode", ValueType::kText, std::string("chunk")},
                                    {"expand_v", ValueType::kNumber, 1.0},
                                    {"use_short_conv", ValueType::kFlag, true},
                                    {"allow_neg_eigval", ValueType::kFlag, false},
                                    {"safe_gate", ValueType::kFlag, false},
                                    {"lower_bound", ValueType::kNumber},
                                    {"conv_size", ValueType::kInteger, int64_t{4}},
                                    {"head_dim", ValueType::kInteger, int64_t{128}},
                                    {"num_heads", ValueType::kInteger, int64_t{16}},
                                    {"num_v_heads", ValueType::kInteger}}),
          .mixer = mixer,
          .check = check};
}

}  // namespace fla::model
