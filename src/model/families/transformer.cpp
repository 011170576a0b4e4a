// SPDX-License-Identifier: MIT
// transformer: softmax attention, the baseline.
#include <fmt/format.h>

#include "model/families/common.h"

namespace fla::model {
namespace {

AttentionLayers spec_of(const Config& c) {
  const int64_t heads = c.integer("num_heads");
  return {.layers = {},
          .num_heads = heads,
          .num_kv_heads = c.integer_or("num_kv_heads", heads),
          .window_size = c.integer_or("window_size", 0),
          .rope_theta = c.number("rope_theta"),
          .qkv_bias = c.flag("qkv_bias")};
}

Tensor mixer(Builder& b, Tensor x, Tensor stream) {
  return attention_mixer(b, x, stream, spec_of(b.config()), b.config().flag("qk_norm"));
}

Status check(const Config& c) {
  const AttentionLayers spec = spec_of(c);
  const int64_t hidden = c.integer("hidden_size");
  if (Status status = check_heads("hidden_size", hidden, spec.num_heads); !status.ok())
    return status;
  if (spec.num_kv_heads < 1 || spec.num_heads % spec.num_kv_heads != 0) {
    return {Code::kInvalidArgument,
            fmt::format("num_kv_heads is {}, expected a divisor of num_heads = {}",
                        spec.num_kv_heads, spec.num_heads)};
  }
  if (hidden / spec.num_heads % 2 != 0)
    return {Code::kInvalidArgument, "a head has an odd number of channels, expected an even one"};
  return check_head_dims(hidden / spec.num_heads, hidden / spec.num_heads);
}

}  // namespace

Family transformer_family() {
  return {.name = "transformer",
          .architecture = "TransformerForCausalLM",
          .source = "Vaswani et al., 2017",
          .keys = with_common_keys({{"num_heads", ValueType::kInteger, int64_t{32}},
                                    {"num_kv_heads", ValueType::kInteger},
                                    {"qkv_bias", ValueType::kFlag, false},
                                    {"qk_norm", ValueType::kFlag, false},
                                    {"window_size", ValueType::kInteger},
                                    {"rope_theta", ValueType::kNumber, 10000.0}}),
          .mixer = mixer,
          .check = check};
}

}  // namespace fla::model
