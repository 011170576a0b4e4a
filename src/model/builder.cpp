// SPDX-License-Identifier: MIT
// Builder: nodes, parameters and states of a graph.
#include "model/builder.h"

#include <cmath>

#include "ops/modules.h"
#include "ops/registry.h"

namespace fla::model {
namespace {

constexpr int64_t kColumnAlign = 8;  // 16 bytes of bf16: what fast products want of a row

}  // namespace

Builder::Builder(const Config& config, const CallShape& shape, Graph* graph)
    : config_(config), shape_(shape), graph_(graph) {
  graph->tokens = input("tokens", shape.rows());
  if (shape.mode == Mode::kTrain || shape.mode == Mode::kScore)
    graph->labels = input("labels", shape.rows());
  if (shape.sequences > 0)
    graph->cu_seqlens = input("cu_seqlens", shape.sequences + 1);
  if (shape.has_states())
    graph->positions = input("positions", shape.num_sequences());
}

void Builder::enter(int32_t layer, std::string prefix) {
  layer_ = layer;
  prefix_ = std::move(prefix);
}

Tensor Builder::add(TensorInfo info) {
  graph_->tensors.push_back(std::move(info));
  return {static_cast<int32_t>(graph_->tensors.size()) - 1};
}

Tensor Builder::activation(int64_t columns) {
  return add({.dtype = shape_.dtype, .rows = shape_.rows(), .columns = columns});
}

Tensor Builder::input(std::string name, int64_t size) {
  return add({.kind = TensorKind::kInput,
              .dtype = DType::kInt32,
              .rows = 1,
              .columns = size,
              .name = std::move(name)});
}

Tensor Builder::state(std::string_view what, int64_t columns, DType dtype) {
  return add({.kind = TensorKind::kState,
              .dtype = dtype,
              .rows = shape_.num_sequences(),
              .columns = columns,
              .name = prefix_ + std::string(what)});
}

float Builder::init_range() const {
  return static_cast<float>(config_.number("initializer_range"));
}

Tensor Builder::parameter(std::string_view name, int64_t rows, int64_t columns,
                          std::vector<int64_t> file_shape, Init init, float scale,
                          std::vector<float> values) {
  const Tensor tensor = add({.kind = TensorKind::kParameter,
                             .dtype = shape_.dtype,
                             .rows = rows,
                             .columns = columns,
                             .name = prefix_ + std::string(name)});
  graph_->parameters.push_back({.name = prefix_ + std::string(name),
                                .tensor = tensor,
                                .rows = rows,
                                .shape = std::move(file_shape),
                                .init = init,
                                .scale = scale,
                                .values = std::move(values)});
  return tensor;
}

Tensor Builder::vector(std::string_view name, int64_t size, Init init, float scale,
                       std::vector<float> values) {
  return parameter(name, 1, size, {size}, init, scale, std::move(values));
}

Tensor Builder::columns(Tensor x, int64_t first, int64_t count) {
  const TensorInfo& info = graph_->info(x);
  return add({.kind = info.kind,
              .dtype = info.dtype,
              .rows = info.rows,
              .columns = count,
              .parent = x,
              .column0 = first});
}

Tensor Builder::stacked(const std::vector<std::pair<std::string, std::vector<float>>>& rows,
                        const std::vector<int64_t>& file_shape) {
  const auto size = static_cast<int64_t>(rows[0].second.size());
  const Tensor block = add({.kind = TensorKind::kParameter,
                            .dtype = shape_.dtype,
                            .rows = static_cast<int64_t>(rows.size()),
                            .columns = size,
                            .name = prefix_ + rows[0].first});
  int64_t row = 0;
  for (const auto& [name, values] : rows) {
    graph_->parameters.push_back({.name = prefix_ + name,
                                  .tensor = block,
                                  .row0 = row++,
                                  .rows = 1,
                                  .shape = file_shape,
                                  .init = Init::kValues,
                                  .values = values});
  }
  return block;
}

Tensor Builder::flattened(Tensor x) {
  TensorInfo& info = graph_->tensors[static_cast<size_t>(x.id)];
  info.columns *= info.rows;
  info.rows = 1;
  return x;
}

Tensor Builder::last(Tensor x) {
  if (shape_.mode != Mode::kPrefill)
    return x;
  const TensorInfo& info = graph_->info(x);
  return add({.kind = info.kind,
              .dtype = info.dtype,
              .rows = shape_.batch,
              .columns = info.columns,
              .parent = x,
              .row0 = shape_.length - 1,
              .row_step = shape_.length});
}

std::vector<Tensor> Builder::module_outputs(ModuleDesc desc, std::vector<Tensor> in) {
  const ops::ModuleRow& row = ops::module_row(desc.module);
  desc.dtype = shape_.dtype;
  desc.param_dtype = shape_.dtype;
  if (desc.rows == 0)
    desc.rows = graph_->info(in[0]).rows;
  in.resize(row.in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].given())
      desc.given |= 1U << i;
  }
  std::vector<Tensor> out(row.out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const ops::ModuleSlot& slot = row.out[i];
    if (slot.optional)
      continue;
    const DType sum = shape_.dtype == DType::kFp64 ? DType::kFp64 : DType::kFp32;
    out[i] = add({.dtype = slot.role == ops::ModuleRole::kSum ? sum : shape_.dtype,
                  .rows = slot.rows(desc),
                  .columns = slot.columns(desc)});
  }
  graph_->nodes.push_back({.module = desc, .in = std::move(in), .out = out, .layer = layer_});
  return out;
}

Tensor Builder::module(ModuleDesc desc, std::vector<Tensor> in) {
  return module_outputs(desc, std::move(in))[0];
}

void Builder::place_sequences(ModuleDesc* desc, std::vector<Tensor>* in, size_t slot) const {
  desc->batch = shape_.sequences > 0 ? 1 : shape_.batch;
  desc->sequences = shape_.sequences;
  if (shape_.sequences == 0)
    return;
  in->resize(std::max(in->size(), slot + 1));
  (*in)[slot] = graph_->cu_seqlens;
}

Tensor Builder::linear(Tensor x, std::initializer_list<Weight> weights, Tensor residual) {
  int64_t used = 0;
  for (const Weight& weight : weights)
    used += weight.rows;
  const int64_t out =
      weights.size() == 1 ? used : (used + kColumnAlign - 1) / kColumnAlign * kColumnAlign;
  const int64_t in = width(x);
  const Tensor block = add({.kind = TensorKind::kParameter,
                            .dtype = shape_.dtype,
                            .rows = out,
                            .columns = in,
                            .name = prefix_ + std::string(weights.begin()->name) + ".weight"});
  Tensor bias;
  int64_t row = 0;
  for (const Weight& weight : weights) {
    if (weight.rows == 0)
      continue;
    graph_->parameters.push_back({.name = prefix_ + std::string(weight.name) + ".weight",
                                  .tensor = block,
                                  .row0 = row,
                                  .rows = weight.rows,
                                  .shape = {weight.rows, in},
                                  .init = weight.init,
                                  .scale = weight.init == Init::kNormal && weight.scale == 0.0F
                                               ? init_range()
                                               : weight.scale});
    row += weight.rows;
    if (!weight.bias.empty())  // families give a bias to products of one weight alone
      bias = vector(weight.bias, out, weight.bias_values.empty() ? Init::kConstant : Init::kValues,
                    0.0F, weight.bias_values);
  }
  return module({.module = Module::kLinear, .width = in, .out = out}, {x, block, bias, residual});
}

Tensor Builder::linear(Tensor x, Tensor weight) {
  const TensorInfo& info = graph_->info(weight);
  return module({.module = Module::kLinear, .width = info.columns, .out = info.rows}, {x, weight});
}

Tensor Builder::embedding(Tensor ids, Tensor table) {
  const TensorInfo& info = graph_->info(table);
  return module({.module = Module::kEmbedding,
                 .rows = shape_.rows(),
                 .width = info.columns,
                 .out = info.rows},
                {ids, table});
}

Tensor Builder::rms_norm(Tensor x, std::string_view weight, int64_t heads, bool shared, Tensor gate,
                         Function on_gate, bool gate_first, double eps) {
  const int64_t size = shared ? width(x) / heads : width(x);
  const Tensor scale = vector(std::string(weight) + ".weight", size, Init::kConstant, 1.0F);
  return module({.module = Module::kRmsNorm,
                 .width = width(x),
                 .heads = heads,
                 .function = on_gate,
                 .eps = static_cast<float>(eps < 0 ? config_.number("norm_eps") : eps),
                 .shared_weight = shared,
                 .gate_first = gate_first},
                {x, scale, gate});
}

Tensor Builder::layer_norm(Tensor x, std::string_view name, int64_t heads, double eps) {
  const Tensor scale = vector(std::string(name) + ".weight", width(x), Init::kConstant, 1.0F);
  const Tensor shift = vector(std::string(name) + ".bias", width(x), Init::kConstant, 0.0F);
  return module({.module = Module::kLayerNorm,
                 .width = width(x),
                 .heads = heads,
                 .eps = static_cast<float>(eps < 0 ? config_.number("norm_eps") : eps)},
                {x, scale, shift});
}

Tensor Builder::short_conv(Tensor x, int64_t taps,
                           std::initializer_list<std::pair<std::string_view, int64_t>> weights,
                           Function function, std::string_view bias) {
  const Tensor block = add({.kind = TensorKind::kParameter,
                            .dtype = shape_.dtype,
                            .rows = width(x),
                            .columns = taps,
                            .name = prefix_ + std::string(weights.begin()->first) + ".weight"});
  int64_t row = 0;
  for (const auto& [name, channels] : weights) {
    graph_->parameters.push_back({.name = prefix_ + std::string(name) + ".weight",
                                  .tensor = block,
                                  .row0 = row,
                                  .rows = channels,
                                  .shape = {channels, 1, taps},
                                  .scale = init_range()});
    row += channels;
  }
  std::vector<Tensor> in = {x, block};
  in.resize(5);
  if (!bias.empty())
    in[slot::ShortConv::bias] = vector(bias, width(x), Init::kConstant, 0.0F);
  ModuleDesc desc = {
      .module = Module::kShortConv, .width = width(x), .taps = taps, .function = function};
  place_sequences(&desc, &in, slot::ShortConv::cu_seqlens);
  Tensor kept;
  if (shape_.has_states()) {
    kept = state("conv_state", width(x) * (taps - 1), shape_.dtype);
    if (shape_.mode == Mode::kDecode)
      in[slot::ShortConv::initial_state] = kept;
    desc.given_out = 1U << slot::ShortConv::final_state;
  }
  std::vector<Tensor> out = module_outputs(desc, std::move(in));
  graph_->nodes.back().out[slot::ShortConv::final_state] = kept;
  return out[0];
}

Tensor Builder::swiglu(Tensor x) {
  return module({.module = Module::kSwiGlu, .width = width(x) / 2}, {x});
}

Tensor Builder::pointwise(Tensor x, Function function, float scale) {
  return module(
      {.module = Module::kPointwise, .width = width(x), .function = function, .scale = scale}, {x});
}

Tensor Builder::rotary(Tensor x, int64_t heads, double base) {
  ModuleDesc desc = {.module = Module::kRotary,
                     .width = width(x),
                     .heads = heads,
                     .base = static_cast<float>(base)};
  std::vector<Tensor> in = {x, {}, graph_->positions};
  place_sequences(&desc, &in, slot::Rotary::cu_seqlens);
  return module(desc, std::move(in));
}

Tensor Builder::attention(Tensor q, Tensor k, Tensor v, int64_t heads, int64_t kv_heads,
                          int64_t window) {
  const double head_dim = static_cast<double>(width(q)) / static_cast<double>(heads);
  ModuleDesc desc = {.module = Module::kAttention,
                     .width = width(q),
                     .heads = heads,
                     .kv_heads = kv_heads,
                     .window = window,
                     .scale = static_cast<float>(1.0 / std::sqrt(head_dim))};
  std::vector<Tensor> in = {q, k, v};
  in.resize(7);
  place_sequences(&desc, &in, slot::Attention::cu_seqlens);
  if (shape_.has_states()) {
    desc.cache_length = shape_.max_length;
    in[slot::Attention::positions] = graph_->positions;
    in[slot::Attention::k_cache] = state("k_cache", shape_.max_length * width(k), shape_.dtype);
    in[slot::Attention::v_cache] = state("v_cache", shape_.max_length * width(v), shape_.dtype);
  }
  return module(desc, std::move(in));
}

Tensor Builder::token_shift(Tensor x, Tensor mix) {
  ModuleDesc desc = {
      .module = Module::kTokenShift, .width = width(x), .taps = graph_->info(mix).rows};
  std::vector<Tensor> in = {x, mix, {}, {}};
  place_sequences(&desc, &in, slot::TokenShift::cu_seqlens);
  Tensor kept;
  if (shape_.has_states()) {
    kept = state("shift_state", width(x), shape_.dtype);
    if (shape_.mode == Mode::kDecode)
      in[slot::TokenShift::initial_state] = kept;
    desc.given_out = 1U << slot::TokenShift::final_state;
  }
  std::vector<Tensor> out = module_outputs(desc, std::move(in));
  graph_->nodes.back().out[slot::TokenShift::final_state] = kept;
  return out[0];
}

Tensor Builder::op(std::string_view name, OpDesc desc, std::vector<std::pair<Slot, Tensor>> slots) {
  desc.B = shape_.sequences > 0 ? 1 : shape_.batch;
  desc.T = shape_.rows() / desc.B;
  desc.N = shape_.sequences;
  desc.dtype = shape_.dtype;
  desc.form = shape_.mode == Mode::kDecode ? Form::kRecurrent : Form::kChunk;
  const ops::OpRow& row = *ops::find_op(name).value().row;
  if (shape_.sequences > 0)
    slots.emplace_back(Slot::kCuSeqlens, graph_->cu_seqlens);
  if (shape_.has_states()) {
    const Tensor kept =
        state("recurrent_state", desc.value_heads() * desc.K * desc.V, DType::kFp32);
    slots.emplace_back(Slot::kFinalState, kept);
    if (shape_.mode == Mode::kDecode)
      slots.emplace_back(Slot::kInitialState, kept);
  }
  const Tensor o = activation(desc.value_heads() * desc.V);
  slots.emplace_back(Slot::kO, o);
  for (const auto& [which, tensor] : slots) {
    const ops::SlotSpec* spec = row.find(which);
    if (spec->optional && which != Slot::kCuSeqlens)
      desc.given.insert(which);
  }
  graph_->nodes.push_back({.is_module = false,
                           .out = {o},
                           .op = row.name,
                           .desc = desc,
                           .slots = std::move(slots),
                           .layer = layer_});
  return o;
}

void Builder::set_loss(Tensor x, Tensor weight) {
  const TensorInfo& info = graph_->info(weight);
  graph_->loss =
      module({.module = Module::kLinearCrossEntropy, .width = info.columns, .out = info.rows},
             {x, weight, graph_->labels});
  graph_->tensors[static_cast<size_t>(graph_->loss.id)].kind = TensorKind::kOutput;
  graph_->tensors[static_cast<size_t>(graph_->loss.id)].name = "loss";
}

void Builder::set_logits(Tensor x, Tensor weight) {
  graph_->logits = linear(x, weight);
  graph_->tensors[static_cast<size_t>(graph_->logits.id)].kind = TensorKind::kOutput;
  graph_->tensors[static_cast<size_t>(graph_->logits.id)].name = "logits";
}

}  // namespace fla::model
