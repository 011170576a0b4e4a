// SPDX-License-Identifier: MIT
// Graph: a model as a static list of nodes over matrices, from which one schedule serves every
// backend.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/module.h"
#include "fla/op.h"

namespace fla::model {

/// How a parameter starts.
enum class Init : uint8_t {
  kNormal,           // N(0, scale)
  kConstant,         // scale
  kUniform,          // U(-scale, scale)
  kLogUniform16,     // ln U(1, 16): A_log
  kInverseSoftplus,  // of exp(U(ln .001, ln .1)): dt_bias
  kValues,           // given one by one
};

/// Index into Graph::tensors.
struct Tensor {
  int32_t id = -1;
  bool given() const { return id >= 0; }
  bool operator==(const Tensor&) const = default;
};

enum class TensorKind : uint8_t {
  kActivation,  // lives as long as the schedule needs it
  kParameter,   // has a gradient of the same size
  kInput,       // tokens, labels, cu_seqlens, positions: int32, written by the caller
  kState,       // kept from call to call
  kOutput,      // loss, logits: read by the caller
};

/// A matrix, or a part of one.
struct TensorInfo {
  TensorKind kind = TensorKind::kActivation;
  DType dtype = DType::kFp32;
  int64_t rows = 0;
  int64_t columns = 0;
  Tensor parent = {};   // given: this is the parent's columns [column0, column0 + columns) of the
  int64_t column0 = 0;  // rows row0, row0 + row_step, ...
  int64_t row0 = 0;
  int64_t row_step = 1;
  std::string name = {};
  bool kept = false;  // stays where recompute would drop it: the input of a block
};

/// A parameter as checkpoints know it: rows of a parameter tensor (weights that one product uses
/// lie together).
struct ParameterInfo {
  std::string name;  // "model.layers.0.attn.q_proj.weight"
  Tensor tensor = {};
  int64_t row0 = 0;
  int64_t rows = 0;
  std::vector<int64_t> shape;  // in files
  Init init = Init::kNormal;
  float scale = 0.0F;
  std::vector<float> values = {};  // kValues
};

/// One module or one operator.
struct Node {
  bool is_module = true;
  ModuleDesc module = {};
  std::vector<Tensor> in = {};  // modules: by slot, not given where optional
  std::vector<Tensor> out = {};
  std::string_view op = {};  // operators: "kda"
  OpDesc desc = {};
  std::vector<std::pair<Slot, Tensor>> slots = {};
  int32_t layer = -1;
};

struct Graph {
  std::vector<TensorInfo> tensors;
  std::vector<ParameterInfo> parameters;
  std::vector<Node> nodes;
  Tensor tokens, labels, cu_seqlens, positions;
  Tensor loss, logits;

  const TensorInfo& info(Tensor tensor) const { return tensors[static_cast<size_t>(tensor.id)]; }
  /// The tensor that owns the memory.
  Tensor root(Tensor tensor) const;
  int64_t num_parameters() const;
};

}  // namespace fla::model
