// SPDX-License-Identifier: MIT
// gated_deltanet: a delta rule whose state decays by a gate a head.
#include "model/families/common.h"

namespace fla::model {
namespace {

int64_t value_heads(const Config& c) {
  return c.integer_or("num_v_heads", c.integer("num_heads"));
}

int64_t value_dim(const Config& c) {  // of a head
  return static_cast<int64_t>(static_cast<double>(c.integer("head_dim")) * c.number("expand_v"));
}

Tensor mixer(Builder& b, Tensor x, Tensor stream) {
  const Config& c = b.config();
  const int64_t heads = c.integer("num_heads");
  const int64_t key_dim = c.integer("head_dim");
  const int64_t v_heads = value_heads(c);
  const int64_t keys = heads * key_dim;
  const int64_t values = v_heads * value_dim(c);
  const int64_t gates = c.flag("use_gate") ? values : 0;
  const Tensor all = b.linear(x, {{"q_proj", keys},
                                  {"k_proj", keys},
                                  {"v_proj", values},
                                  {"g_proj", gates},
                                  {"a_proj", v_heads},
                                  {"b_proj", v_heads}});
  const int64_t low = 2 * keys + values;
  Tensor qkv = b.columns(all, 0, low);
  if (c.flag("use_short_conv")) {
    qkv = b.short_conv(qkv, c.integer("conv_size"),
                       {{"q_conv1d", keys}, {"k_conv1d", keys}, {"v_conv1d", values}},
                       Function::kSilu);
  } else {
    qkv = b.pointwise(qkv, Function::kSilu);
  }
  OpDesc desc = head_sizes(heads, v_heads, key_dim, value_dim(c));
  desc.l2norm_qk = true;
  desc.beta_sigmoid = true;
  desc.allow_neg_eigval = c.flag("allow_neg_eigval");
  desc.gate_input = GateInput::kSoftplus;
  const Tensor o =
      b.op("gdn", desc,
           {{Slot::kQ, b.columns(qkv, 0, keys)},
            {Slot::kK, b.columns(qkv, keys, keys)},
            {Slot::kV, b.columns(qkv, 2 * keys, values)},
            {Slot::kG, b.columns(all, low + gates, v_heads)},
            {Slot::kBeta, b.columns(all, low + gates + v_heads, v_heads)},
            {Slot::kALog, b.vector("A_log", v_heads, Init::kLogUniform16, 0.0F)},
            {Slot::kDtBias, b.vector("dt_bias", v_heads, Init::kInverseSoftplus, 0.0F)}});
  const Tensor gate = gates > 0 ? b.columns(all, low, gates) : Tensor();
  const Tensor y = b.rms_norm(o, "o_norm", v_heads, true, gate, Function::kSilu);
  return b.linear(y, {{"o_proj", b.width(stream)}}, stream);
}

Status check(const Config& c) {
  if (Status status = check_heads("num_v_heads", value_heads(c), c.integer("num_heads"));
      !status.ok())
    return status;
  return check_head_dims(c.integer("head_dim"), value_dim(c));
}

}  // namespace

Family gated_deltanet_family() {
  return {.name = "gated_deltanet",
          .architecture = "GatedDeltaNetForCausalLM",
          .source = "Gated DeltaNet, 2024",
          .keys = with_common_keys({{"attn_mode", ValueType::kText, std::string("chunk")},
                                    {"num_hidden_layers", ValueType::kInteger, int64_t{21}},
                                    {"expand_v", ValueType::kNumber, 2.0},
                                    {"use_gate", ValueType::kFlag, true},
                                    {"use_short_conv", ValueType::kFlag, true},
                                    {"allow_neg_eigval", ValueType::kFlag, false},
                                    {"conv_size", ValueType::kInteger, int64_t{4}},
                                    {"head_dim", ValueType::kInteger, int64_t{256}},
                                    {"num_heads", ValueType::kInteger, int64_t{6}},
                                    {"num_v_heads", ValueType::kInteger}}),
          .mixer = mixer,
          .check = check};
}

}  // namespace fla::model
