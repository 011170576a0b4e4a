// SPDX-License-Identifier: MIT
// The families of models: one row each.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "model/builder.h"
#include "model/config.h"

namespace fla::model {

enum class ValueType : uint8_t { kFlag, kInteger, kNumber, kText, kJson };

/// A key of config.json. One whose default is null may be null.
struct ConfigKey {
  std::string_view name;
  ValueType type = ValueType::kInteger;
  Value value = Null{};
};

struct Family {
  std::string_view name;          // model_type: "kda"
  std::string_view architecture;  // "KDAForCausalLM"
  std::string_view source;        // paper and year
  std::vector<ConfigKey> keys;
  /// A tensor that all mixers read as Builder::shared(), where the family has one.
  Tensor (*shared)(Builder& b) = nullptr;
  /// The mixer of a layer: from the normed input and the stream to the stream with the mixer's
  /// output added.
  Tensor (*mixer)(Builder& b, Tensor x, Tensor stream) = nullptr;
  /// The whole model where it is not the common skeleton.
  void (*build)(Builder& b) = nullptr;
  Status (*check)(const Config& config) = nullptr;
};

/// Every family, kda first.
const std::vector<Family>& families();
Result<const Family*> find_family(std::string_view name);

/// Builds the model into a graph. `config` has been checked.
Graph build_graph(const Config& config, const CallShape& shape);

/// The head and what it is for: loss, logits or both. `x` has been normed; `table` serves as the
/// head where it is tied. `scale`: of the head's N(0, scale); 0: the config's initializer_range.
void finish(Builder& b, Tensor x, Tensor table, double scale = 0.0);

/// Softmax attention as a mixer, for the transformer and for the listed layers of hybrids.
Tensor attention_mixer(Builder& b, Tensor x, Tensor stream, const AttentionLayers& spec,
                       bool qk_norm);

}  // namespace fla::model
