// SPDX-License-Identifier: MIT
// mamba2: state space duality; blocks of one mixer without an MLP.
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "model/families/common.h"

namespace fla::model {
namespace {

struct Sizes {
  explicit Sizes(const Config& c)
      : inner(c.integer("expand") * c.integer("hidden_size")),
        heads(inner / c.integer("head_dim")),
        groups(c.integer("n_groups")),
        state(c.integer("state_size")),
        conv(inner + 2 * groups * state) {}
  int64_t inner, heads, groups, state, conv;
};

Tensor mixer(Builder& b, Tensor x, Tensor stream) {
  const Config& c = b.config();
  const Sizes s(c);
  const Tensor all = b.linear(x, {{"in_proj", s.inner + s.conv + s.heads}});
  const Tensor conv =
      b.short_conv(b.columns(all, s.inner, s.conv), c.integer("conv_kernel"), {{"conv1d", s.conv}},
                   Function::kSilu, c.flag("use_conv_bias") ? "conv1d.bias" : "");
  const Tensor y =
      b.op("ssd", head_sizes(s.groups, s.heads, s.state, c.integer("head_dim")),
           {{Slot::kQ, b.columns(conv, s.inner + s.groups * s.state, s.groups * s.state)},
            {Slot::kK, b.columns(conv, s.inner, s.groups * s.state)},
            {Slot::kV, b.columns(conv, 0, s.inner)},
            {Slot::kG, b.columns(all, s.inner + s.conv, s.heads)},
            {Slot::kDtBias, b.vector("dt_bias", s.heads, Init::kInverseSoftplus, 0.0F)},
            {Slot::kALog, b.vector("A_log", s.heads, Init::kLogUniform16, 0.0F)},
            {Slot::kDSkip, b.vector("D", s.heads, Init::kConstant, 1.0F)}});
  const Tensor n =
      b.rms_norm(y, "norm", s.groups, false, b.columns(all, 0, s.inner), Function::kSilu, true);
  const double bound = 1.0 / std::sqrt(static_cast<double>(s.inner) *
                                       static_cast<double>(c.integer("num_hidden_layers")));
  return b.linear(n,
                  {{.name = "out_proj",
                    .rows = b.width(stream),
                    .init = Init::kUniform,
                    .scale = static_cast<float>(bound)}},
                  stream);
}

void build(Builder& b) {
  const Config& c = b.config();
  const int64_t vocab = c.integer("vocab_size");
  const int64_t hidden = c.integer("hidden_size");
  b.enter(-1, "backbone.");
  const Tensor table =
      b.parameter("embeddings.weight", vocab, hidden, {vocab, hidden}, Init::kNormal,
                  static_cast<float>(c.number("initializer_range")));
  Tensor stream = b.embedding(b.tokens(), table);
  for (int64_t i = 0; i < c.integer("num_hidden_layers"); ++i) {
    b.keep(stream);
    const std::string prefix = fmt::format("backbone.layers.{}.", i);
    b.enter(static_cast<int32_t>(i), prefix);
    const Tensor x = b.rms_norm(stream, "norm");
    b.enter(static_cast<int32_t>(i), prefix + "mixer.");
    stream = mixer(b, x, stream);
  }
  b.keep(stream);
  b.enter(-1, "backbone.");
  finish(b, b.rms_norm(b.last(stream), "norm_f"), table);
}

Status refuse(std::string_view key, std::string_view expected) {
  return {Code::kInvalidArgument, fmt::format("{} must be {} (no other is built)", key, expected)};
}

Status check(const Config& c) {
  const Sizes s(c);
  if (s.inner % c.integer("head_dim") != 0)
    return check_heads("expand times hidden_size", s.inner, c.integer("head_dim"));
  if (s.heads % s.groups != 0 || s.inner % s.groups != 0)
    return {Code::kInvalidArgument,
            fmt::format("n_groups is {}, expected a divisor of {} heads", s.groups, s.heads)};
  if (c.flag("use_bias"))
    return refuse("use_bias", "false");
  if (!c.flag("rmsnorm") || c.flag("norm_before_gate"))
    return refuse("rmsnorm and norm_before_gate", "true and false");
  if (c.flag("D_has_hdim"))
    return refuse("D_has_hdim", "false");
  return check_head_dims(s.state, c.integer("head_dim"));
}

}  // namespace

Family mamba2_family() {
  return {.name = "mamba2",
          .architecture = "Mamba2ForCausalLM",
          .source = "Mamba-2 (SSD), 2024",
          .keys = {{"head_dim", ValueType::kInteger, int64_t{64}},
                   {"vocab_size", ValueType::kInteger, int64_t{32000}},
                   {"hidden_size", ValueType::kInteger, int64_t{2048}},
                   {"state_size", ValueType::kInteger, int64_t{128}},
                   {"num_hidden_layers", ValueType::kInteger, int64_t{48}},
                   {"norm_eps", ValueType::kNumber, 1e-5},
                   {"pad_token_id", ValueType::kInteger, int64_t{0}},
                   {"bos_token_id", ValueType::kInteger, int64_t{1}},
                   {"eos_token_id", ValueType::kInteger, int64_t{2}},
                   {"expand", ValueType::kInteger, int64_t{2}},
                   {"conv_kernel", ValueType::kInteger, int64_t{4}},
                   {"n_groups", ValueType::kInteger, int64_t{1}},
                   {"use_bias", ValueType::kFlag, false},
                   {"use_conv_bias", ValueType::kFlag, true},
                   {"conv_init", ValueType::kNumber},
                   {"A_init_range", ValueType::kJson, Json{"[1,16]"}},
                   {"D_has_hdim", ValueType::kFlag, false},
                   {"hidden_act", ValueType::kText, std::string("silu")},
                   {"initializer_range", ValueType::kNumber, 0.02},
                   {"residual_in_fp32", ValueType::kFlag, true},
                   {"dt_min", ValueType::kNumber, 0.001},
                   {"dt_max", ValueType::kNumber, 0.1},
                   {"dt_init_floor", ValueType::kNumber, 1e-4},
                   {"dt_limit", ValueType::kJson},
                   {"rescale_prenorm_residual", ValueType::kFlag, true},
                   {"use_cache", ValueType::kFlag, true},
                   {"rmsnorm", ValueType::kFlag, true},
                   {"norm_before_gate", ValueType::kFlag, false},
                   {"chunk_size", ValueType::kInteger, int64_t{256}},
                   {"fuse_norm", ValueType::kFlag, true},
                   {"fuse_cross_entropy", ValueType::kFlag, true},
                   {"fuse_linear_cross_entropy", ValueType::kFlag, false},
                   {"use_l2warp", ValueType::kFlag, false},
                   {"tie_word_embeddings", ValueType::kFlag, false}},
          .build = build,
          .check = check};
}

}  // namespace fla::model
