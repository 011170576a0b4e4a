// SPDX-License-Identifier: MIT
// Builder: the vocabulary in which families write their layers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/module.h"
#include "fla/op.h"
#include "model/config.h"
#include "model/graph.h"

namespace fla::model {

enum class Mode : uint8_t {
  kTrain,    // tokens and labels to the loss
  kScore,    // the same without gradients, and all logits
  kPrefill,  // tokens to the last logits of each sequence; states are written
  kDecode,   // one token a sequence; states are read and written
};

/// What a graph is built for.
struct CallShape {
  Mode mode = Mode::kTrain;
  int64_t batch = 1;  // sequences of `length` tokens each
  int64_t length = 0;
  int64_t sequences = 0;  // packed: at most that many in batch * length tokens; 0: dense
  DType dtype = DType::kFp32;
  int64_t max_length = 0;  // tokens a sequence may reach: the size of attention's caches
  int64_t rows() const { return batch * length; }
  int64_t num_sequences() const { return sequences == 0 ? batch : sequences; }
  bool has_states() const { return mode == Mode::kPrefill || mode == Mode::kDecode; }
};

/// The sizes of an operator's heads; the rest at its default.
inline OpDesc head_sizes(int64_t H, int64_t HV, int64_t K, int64_t V) {
  OpDesc desc;
  desc.H = H;
  desc.HV = HV;
  desc.K = K;
  desc.V = V;
  return desc;
}

/// One of several weights [rows, columns of x] that share a product.
struct Weight {
  std::string_view name;  // after the layer's prefix, with ".weight"
  int64_t rows = 0;
  Init init = Init::kNormal;
  float scale = 0.0F;                   // 0: the config's initializer_range
  std::string_view bias = {};           // name, when it has one
  std::vector<float> bias_values = {};  // empty: zeros
};

class Builder {
 public:
  Builder(const Config& config, const CallShape& shape, Graph* graph);

  const Config& config() const { return config_; }
  const CallShape& shape() const { return shape_; }
  int32_t layer() const { return layer_; }

  /// From here on parameters are called `prefix` + name and nodes belong to `layer`.
  void enter(int32_t layer, std::string prefix);

  /// A parameter [rows, columns] called prefix + name, of the given shape in files.
  Tensor parameter(std::string_view name, int64_t rows, int64_t columns,
                   std::vector<int64_t> file_shape, Init init, float scale,
                   std::vector<float> values = {});
  Tensor vector(std::string_view name, int64_t size, Init init, float scale,
                std::vector<float> values = {});
  /// Several vectors of `size` as the rows of one parameter, each called and shaped as given.
  Tensor stacked(const std::vector<std::pair<std::string, std::vector<float>>>& rows,
                 const std::vector<int64_t>& file_shape);

  Tensor columns(Tensor x, int64_t first, int64_t count);
  int64_t width(Tensor x) const { return graph_->info(x).columns; }

  /// y = x W^T (+ bias) (+ residual). Several weights side by side in y, which has unused columns
  /// up to a multiple of 8.
  Tensor linear(Tensor x, std::initializer_list<Weight> weights, Tensor residual = {});
  Tensor linear(Tensor x, Tensor weight);
  Tensor embedding(Tensor ids, Tensor table);
  /// Over heads groups of channels; a shared weight has width / heads entries.
  Tensor rms_norm(Tensor x, std::string_view weight, int64_t heads = 1, bool shared = false,
                  Tensor gate = {}, Function on_gate = Function::kIdentity, bool gate_first = false,
                  double eps = -1.0);
  Tensor layer_norm(Tensor x, std::string_view name, int64_t heads = 1, double eps = -1.0);
  /// Depthwise over all of x's columns; `weights` are name and channels in order.
  Tensor short_conv(Tensor x, int64_t taps,
                    std::initializer_list<std::pair<std::string_view, int64_t>> weights,
                    Function function, std::string_view bias = {});
  Tensor swiglu(Tensor x);
  Tensor pointwise(Tensor x, Function function, float scale = 1.0F);
  Tensor rotary(Tensor x, int64_t heads, double base);
  Tensor attention(Tensor q, Tensor k, Tensor v, int64_t heads, int64_t kv_heads, int64_t window);
  /// mix [count, width]: count mixtures side by side.
  Tensor token_shift(Tensor x, Tensor mix);
  /// What the head reads: in a prefill the last row of each sequence, otherwise x.
  Tensor last(Tensor x);
  /// A contiguous tensor as one row.
  Tensor flattened(Tensor x);
  /// Any other module: desc.rows and dtypes are filled in; the first output.
  Tensor module(ModuleDesc desc, std::vector<Tensor> in);
  std::vector<Tensor> module_outputs(ModuleDesc desc, std::vector<Tensor> in);

  /// An operator with B, T, N, states and dtype filled in; `desc` gives the heads, K, V and
  /// switches.
  Tensor op(std::string_view name, OpDesc desc, std::vector<std::pair<Slot, Tensor>> slots);

  /// Marks the stream between blocks.
  void keep(Tensor x) { graph_->tensors[static_cast<size_t>(graph_->root(x).id)].kept = true; }

  Tensor tokens() const { return graph_->tokens; }
  void set_shared(Tensor tensor) { shared_ = tensor; }
  Tensor shared() const { return shared_; }
  void set_loss(Tensor x, Tensor weight);
  void set_logits(Tensor x, Tensor weight);

 private:
  Tensor add(TensorInfo info);
  Tensor activation(int64_t columns);
  Tensor input(std::string name, int64_t size);
  Tensor state(std::string_view what, int64_t columns, DType dtype);
  /// Sequences, and cu_seqlens where packed: what a module with memory needs.
  void place_sequences(ModuleDesc* desc, std::vector<Tensor>* in, size_t slot) const;
  float init_range() const;

  const Config& config_;
  CallShape shape_;
  Graph* graph_;
  int32_t layer_ = -1;
  std::string prefix_;
  Tensor shared_;
};

}  // namespace fla::model
