// SPDX-License-Identifier: MIT
// hgrn2: a gated linear recurrence whose key is what its gate forgets.
#include <fmt/format.h>

#include "model/families/common.h"

namespace fla::model {
namespace {

int64_t num_heads(const Config& c) {
  const int64_t hidden = c.integer("hidden_size");
  return c.is_null("num_heads") ? hidden / c.integer("expand_ratio") : c.integer("num_heads");
}

/// From the model's parameter [layers, hidden] to lower bounds, layer after layer in one row.
Tensor lower_bounds(Builder& b) {
  const Config& c = b.config();
  if (!c.flag("use_lower_bound"))
    return {};
  const int64_t layers = c.integer("num_hidden_layers");
  const int64_t hidden = c.integer("hidden_size");
  const Tensor raw =
      b.parameter("lower_bounds", layers, hidden, {layers, hidden}, Init::kConstant, 0.0F);
  return b.flattened(b.module({.module = Module::kHgrn2LowerBounds, .width = hidden}, {raw}));
}

Tensor mixer(Builder& b, Tensor x, Tensor stream) {
  const Config& c = b.config();
  const int64_t hidden = c.integer("hidden_size");
  const int64_t heads = num_heads(c);
  const Tensor all = b.linear(x, {{"q_proj", hidden}, {"f_proj", hidden}, {"i_proj", hidden}});
  const Tensor q = b.pointwise(b.columns(all, 0, hidden), Function::kSilu);
  const Tensor f = b.columns(all, hidden, hidden);
  Tensor g;
  if (b.layer() > 0 && b.shared().given()) {
    const Tensor bound = b.columns(b.shared(), b.layer() * hidden, hidden);
    g = b.module({.module = Module::kHgrn2Gate, .width = hidden}, {f, bound});
  } else {
    g = b.pointwise(f, Function::kLogSigmoid);  // the first layer's bound is 0
  }
  const Tensor o =
      b.op("hgrn2", head_sizes(heads, heads, hidden / heads, hidden / heads),
           {{Slot::kQ, q}, {Slot::kV, b.columns(all, 2 * hidden, hidden)}, {Slot::kG, g}});
  constexpr double kEps = 1e-5;  // of this norm, whatever norm_eps says
  const Tensor y = b.rms_norm(o, "g_norm", 1, false, {}, Function::kIdentity, false, kEps);
  return b.linear(y, {{"o_proj", hidden}}, stream);
}

Status check(const Config& c) {
  if (Status status = check_heads("hidden_size", c.integer("hidden_size"), num_heads(c));
      !status.ok())
    return status;
  if (c.flag("use_short_conv"))
    return {Code::kInvalidArgument, "use_short_conv is true, expected false (no other is built)"};
  const int64_t head_dim = c.integer("hidden_size") / num_heads(c);
  return check_head_dims(head_dim, head_dim);
}

}  // namespace

Family hgrn2_family() {
  return {.name = "hgrn2",
          .architecture = "HGRN2ForCausalLM",
          .source = "HGRN2, 2024",
          .keys = with_common_keys({{"attn_mode", ValueType::kText, std::string("chunk")},
                                    {"num_heads", ValueType::kInteger},
                                    {"expand_ratio", ValueType::kInteger, int64_t{128}},
                                    {"use_short_conv", ValueType::kFlag, false},
                                    {"conv_size", ValueType::kInteger, int64_t{4}},
                                    {"use_lower_bound", ValueType::kFlag, true}}),
          .shared = lower_bounds,
          .mixer = mixer,
          .check = check};
}

}  // namespace fla::model
