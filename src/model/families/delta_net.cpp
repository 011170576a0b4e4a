// SPDX-License-Identifier: MIT
// delta_net: the delta rule without decay.
#include <string>

#include <fmt/format.h>

#include "model/families/common.h"

namespace fla::model {
namespace {

int64_t scaled(const Config& c, std::string_view expansion) {
  return static_cast<int64_t>(static_cast<double>(c.integer("hidden_size")) * c.number(expansion));
}

Tensor mixer(Builder& b, Tensor x, Tensor stream) {
  const Config& c = b.config();
  const int64_t heads = c.integer("num_heads");
  const int64_t keys = scaled(c, "expand_k");
  const int64_t values = scaled(c, "expand_v");
  const int64_t gates = c.flag("use_gate") ? values : 0;
  const Tensor all = b.linear(x, {{"q_proj", keys},
                                  {"k_proj", keys},
                                  {"v_proj", values},
                                  {"g_proj", gates},
                                  {"b_proj", heads}});
  const int64_t low = 2 * keys + values;
  Tensor qkv = b.columns(all, 0, low);
  if (c.flag("use_short_conv")) {
    qkv = b.short_conv(qkv, c.integer("conv_size"),
                       {{"q_conv1d", keys}, {"k_conv1d", keys}, {"v_conv1d", values}},
                       Function::kSilu);
  } else {
    qkv = b.pointwise(qkv, Function::kSilu);
  }
  OpDesc desc = head_sizes(heads, heads, keys / heads, values / heads);
  desc.l2norm_qk = true;
  const float most = c.flag("allow_neg_eigval") ? 2.0F : 1.0F;
  const Tensor beta = b.pointwise(b.columns(all, low + gates, heads), Function::kSigmoid, most);
  const Tensor o = b.op("delta_rule", desc,
                        {{Slot::kQ, b.columns(qkv, 0, keys)},
                         {Slot::kK, b.columns(qkv, keys, keys)},
                         {Slot::kV, b.columns(qkv, 2 * keys, values)},
                         {Slot::kBeta, beta}});
  const Tensor gate = gates > 0 ? b.columns(all, low, gates) : Tensor();
  const Tensor y = b.rms_norm(o, "o_norm", heads, true, gate, Function::kSilu);
  return b.linear(y, {{"o_proj", b.width(stream)}}, stream);
}

Status check(const Config& c) {
  const int64_t heads = c.integer("num_heads");
  for (std::string_view key : {"expand_k", "expand_v"}) {
    if (Status status = check_heads(fmt::format("{} of hidden_size", key), scaled(c, key), heads);
        !status.ok())
      return status;
  }
  for (const auto& [key, only] : {std::pair("qk_norm", "l2"), std::pair("qk_activation", "silu")}) {
    if (c.text(key) != only) {
      return {Code::kInvalidArgument,
              fmt::format("{} is {}, expected {} (no other is built)", key, c.text(key), only)};
    }
  }
  if (!c.flag("use_beta"))
    return {Code::kInvalidArgument, "use_beta is false, expected true (no other is built)"};
  return check_head_dims(scaled(c, "expand_k") / heads, scaled(c, "expand_v") / heads);
}

}  // namespace

Family delta_net_family() {
  return {.name = "delta_net",
          .architecture = "DeltaNetForCausalLM",
          .source = "DeltaNet, 2024",
          .keys = with_common_keys({{"attn_mode", ValueType::kText, std::string("chunk")},
                                    {"expand_k", ValueType::kNumber, 1.0},
                                    {"expand_v", ValueType::kNumber, 1.0},
                                    {"use_gate", ValueType::kFlag, false},
                                    {"use_short_conv", ValueType::kFlag, true},
                                    {"allow_neg_eigval", ValueType::kFlag, false},
                                    {"conv_size", ValueType::kInteger, int64_t{4}},
                                    {"use_beta", ValueType::kFlag, true},
                                    {"use_output_norm", ValueType::kFlag, true},
                                    {"num_heads", ValueType::kInteger, int64_t{16}},
                                    {"qk_norm", ValueType::kText, std::string("l2")},
                                    {"qk_activation", ValueType::kText, std::string("silu")}}),
          .mixer = mixer,
          .check = check};
}

}  // namespace fla::model
