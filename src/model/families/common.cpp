// SPDX-License-Identifier: MIT
// The table of families, and what their rows share.
#include "model/families/common.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "ops/messages.h"

namespace fla::model {
namespace {

constexpr int64_t kMaxHeadDim = 512;

Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

}  // namespace

std::vector<ConfigKey> with_common_keys(std::initializer_list<ConfigKey> own) {
  std::vector<ConfigKey> keys = {
      {"hidden_size", ValueType::kInteger, int64_t{2048}},
      {"num_hidden_layers", ValueType::kInteger, int64_t{24}},
      {"hidden_ratio", ValueType::kInteger, int64_t{4}},
      {"intermediate_size", ValueType::kInteger},
      {"hidden_act", ValueType::kText, std::string("swish")},
      {"max_position_embeddings", ValueType::kInteger, int64_t{2048}},
      {"elementwise_affine", ValueType::kFlag, true},
      {"norm_eps", ValueType::kNumber, 1e-6},
      {"attn", ValueType::kJson},
      {"use_cache", ValueType::kFlag, true},
      {"pad_token_id", ValueType::kInteger},
      {"bos_token_id", ValueType::kInteger, int64_t{1}},
      {"eos_token_id", ValueType::kInteger, int64_t{2}},
      {"tie_word_embeddings", ValueType::kFlag, false},
      {"initializer_range", ValueType::kNumber, 0.02},
      {"fuse_norm", ValueType::kFlag, true},
      {"fuse_swiglu", ValueType::kFlag, true},
      {"fuse_cross_entropy", ValueType::kFlag, true},
      {"fuse_linear_cross_entropy", ValueType::kFlag, false},
      {"use_l2warp", ValueType::kFlag, false},
      {"vocab_size", ValueType::kInteger, int64_t{32000}},
      {"attnres_block_size", ValueType::kInteger},
  };
  for (const ConfigKey& key : own) {
    const auto same = std::find_if(keys.begin(), keys.end(),
                                   [&](const ConfigKey& other) { return other.name == key.name; });
    if (same == keys.end())
      keys.push_back(key);
    else
      *same = key;
  }
  return keys;
}

Status check_head_dims(int64_t key_dim, int64_t value_dim) {
  if (key_dim >= 1 && key_dim <= kMaxHeadDim && value_dim >= 1 && value_dim <= kMaxHeadDim)
    return {};
  return invalid(fmt::format("a head has {} key and {} value channels, expected 1 to {}", key_dim,
                             value_dim, kMaxHeadDim));
}

Status check_heads(std::string_view total, int64_t size, int64_t num_heads) {
  if (size % num_heads == 0)
    return {};
  return invalid(
      fmt::format("num_heads is {}, expected a divisor of {} = {}", num_heads, total, size));
}

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      kda_family(),        gated_deltanet_family(), gla_family(),   retnet_family(),
      delta_net_family(),  mamba2_family(),         rwkv7_family(), hgrn2_family(),
      simple_gla_family(), transformer_family()};
  return table;
}

Result<const Family*> find_family(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Family& family : families()) {
    if (family.name == name)
      return &family;
    names.push_back(family.name);
  }
  return invalid(fmt::format("unknown model '{}'; {}", name, ops::did_you_mean(name, names)));
}

}  // namespace fla::model
