// SPDX-License-Identifier: MIT
// The skeleton that families share: embedding, pre-norm blocks of a mixer and an MLP, norm, head.
#include <string>

#include <fmt/format.h>

#include "model/family.h"

namespace fla::model {
namespace {

/// intermediate_size, or two thirds of hidden_ratio times hidden_size, up to a multiple of 256.
int64_t mlp_width(const Config& config) {
  if (!config.is_null("intermediate_size"))
    return config.integer("intermediate_size");
  const int64_t raw = config.integer("hidden_size") * config.integer("hidden_ratio") * 2 / 3;
  return (raw + 255) / 256 * 256;
}

Tensor mlp(Builder& b, Tensor x, Tensor stream) {
  const int64_t inner = mlp_width(b.config());
  const Tensor z = b.swiglu(b.linear(x, {{"gate_proj", inner}, {"up_proj", inner}}));
  return b.linear(z, {{"down_proj", b.width(stream)}}, stream);
}

void build_causal_lm(Builder& b) {
  const Config& config = b.config();
  const int64_t hidden = config.integer("hidden_size");
  const int64_t vocab = config.integer("vocab_size");
  const float range = static_cast<float>(config.number("initializer_range"));
  b.enter(-1, "model.");
  const Tensor table =
      b.parameter("embeddings.weight", vocab, hidden, {vocab, hidden}, Init::kNormal, range);
  if (config.family().shared != nullptr)
    b.set_shared(config.family().shared(b));
  Tensor stream = b.embedding(b.tokens(), table);
  for (int64_t i = 0; i < config.integer("num_hidden_layers"); ++i) {
    b.keep(stream);
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const auto layer = static_cast<int32_t>(i);
    b.enter(layer, prefix);
    const Tensor x = b.rms_norm(stream, "attn_norm");
    b.enter(layer, prefix + "attn.");
    const AttentionLayers* attention = config.attention_of(i);
    stream = attention != nullptr ? attention_mixer(b, x, stream, *attention, false)
                                  : config.family().mixer(b, x, stream);
    b.enter(layer, prefix);
    const Tensor y = b.rms_norm(stream, "mlp_norm");
    b.enter(layer, prefix + "mlp.");
    stream = mlp(b, y, stream);
  }
  b.keep(stream);
  b.enter(-1, "model.");
  finish(b, b.rms_norm(b.last(stream), "norm"), table);
}

}  // namespace

void finish(Builder& b, Tensor x, Tensor table, double scale) {
  const Config& config = b.config();
  const int64_t vocab = config.integer("vocab_size");
  const int64_t hidden = config.integer("hidden_size");
  Tensor head = table;
  if (!config.flag("tie_word_embeddings")) {
    b.enter(-1, "");
    head =
        b.parameter("lm_head.weight", vocab, hidden, {vocab, hidden}, Init::kNormal,
                    static_cast<float>(scale == 0.0 ? config.number("initializer_range") : scale));
  }
  if (b.shape().mode != Mode::kTrain)
    b.set_logits(x, head);
  if (!b.shape().has_states())
    b.set_loss(x, head);
}

Graph build_graph(const Config& config, const CallShape& shape) {
  Graph graph;
  Builder builder(config, shape, &graph);
  if (config.family().build != nullptr)
    config.family().build(builder);
  else
    build_causal_lm(builder);
  return graph;
}

Tensor attention_mixer(Builder& b, Tensor x, Tensor stream, const AttentionLayers& spec,
                       bool qk_norm) {
  const int64_t hidden = b.width(stream);
  const int64_t head_dim = hidden / spec.num_heads;
  const int64_t kv_width = spec.num_kv_heads * head_dim;
  const auto project = [&](std::string_view name, int64_t rows, std::string_view bias) {
    return b.linear(
        x, {{.name = name, .rows = rows, .bias = spec.qkv_bias ? bias : std::string_view()}});
  };
  Tensor q = project("q_proj", hidden, "q_proj.bias");
  Tensor k = project("k_proj", kv_width, "k_proj.bias");
  const Tensor v = project("v_proj", kv_width, "v_proj.bias");
  if (qk_norm) {
    q = b.rms_norm(q, "q_norm", spec.num_heads, true, {}, Function::kIdentity, false, 1e-5);
    k = b.rms_norm(k, "k_norm", spec.num_kv_heads, true, {}, Function::kIdentity, false, 1e-5);
  }
  q = b.rotary(q, spec.num_heads, spec.rope_theta);
  k = b.rotary(k, spec.num_kv_heads, spec.rope_theta);
  const Tensor o = b.attention(q, k, v, spec.num_heads, spec.num_kv_heads, spec.window_size);
  return b.linear(o, {{"o_proj", hidden}}, stream);
}

}  // namespace fla::model
