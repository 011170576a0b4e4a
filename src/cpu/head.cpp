// SPDX-License-Identifier: MIT
// HeadIo, forward: loads and pre-processing.
#include "cpu/head.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fla::cpu {
namespace {

constexpr float kNormEpsilon = 1e-6F;
constexpr float kAtkScale = -0.2F;

}  // namespace

HeadIo::HeadIo(const Problem& p, Arena* arena) : problem_(p), kernels_(*p.kernels) {
  const Canonical& c = p.canonical;
  const int64_t rows = p.chunk_rows;
  const auto keys = [&] { return arena->tile(rows, p.k); };
  const auto values = [&] { return arena->tile(rows, p.width); };
  chunk_.q = keys();
  key_ = keys();
  chunk_.k = c.precondition || c.key_from_gate ? keys() : key_;
  value_ = values();
  chunk_.v = c.has_beta || c.channel_gates || c.dt_gate ? values() : value_;
  chunk_.o = values();
  scratch_ = arena->tile(rows, std::max({p.k, p.width, p.m}));
  if (c.erase_key_is_p)
    erase_ = keys();
  if (c.update != Update::kAdd)
    chunk_.e = keys();
  if (c.update == Update::kDplr)
    chunk_.b = keys();
  if (c.channel_gates) {
    erase_gate_ = keys();
    write_gate_ = values();
  }
  if (c.slot_softmax)
    chunk_.s = arena->tile(rows, p.m);
  if (p.gate_channels() > 0) {
    chunk_.g = arena->tile(rows, p.gate_channels());
    if (c.gate_input != GateInput::kLog)
      gate_raw_ = arena->tile(rows, p.gate_channels());
  }
  for (float** scalars : {&q_factor_, &k_factor_, &p_factor_, &beta_, &gate_, &gate_logit_,
                          &step_size_, &d_row_, &g_atk_, &beta_atk_}) {
    *scalars = arena->take<float>(rows);
  }
  if (c.bonus)
    bonus_ = arena->take<float>(round_up(p.k, kPad));
  if (c.precondition) {
    atk_ = keys();
    atk_log_ = keys();
    atk_factor_ = keys();
    atk_state_ = arena->take<float>(round_up(p.k, kPad));
    atk_entry_ = arena->take<float>(round_up(p.k, kPad));
  }
  if (!p.backward())
    return;
  chunk_.d_o = arena->tile(2 * rows, p.width);
  chunk_.dq = keys();
  chunk_.dk = keys();
  chunk_.dv = values();
  chunk_.de = keys();
  chunk_.db = keys();
  if (c.slot_softmax)
    chunk_.ds = arena->tile(rows, p.m);
  if (p.gate_channels() > 0)
    chunk_.dg = arena->tile(rows, p.gate_channels());
  chunk_.dg_row = arena->take<float>(rows);
  q_sum_ = keys();
  k_sum_ = keys();
  p_sum_ = keys();
  a_sum_ = keys();
  b_sum_ = keys();
  write_key_sum_ = keys();
  if (c.bonus)
    d_bonus_ = arena->take<float>(round_up(p.k, kPad));
  if (c.precondition)
    atk_gradient_ = arena->take<float>(round_up(p.k, kPad));
}

void HeadIo::start(const TensorSet& tensors, const Sequence& sequence, int64_t head,
                   int64_t column) {
  tensors_ = &tensors;
  sequence_ = &sequence;
  head_ = head;
  column_ = column;
  const Canonical& c = problem_.canonical;
  if (c.precondition) {
    std::fill_n(atk_state_, round_up(problem_.k, kPad), 0.0F);
    const TensorView& initial = tensors[Slot::kInitialState2];
    if (initial.data != nullptr && sequence.reads_state) {
      for (int64_t i = 0; i < problem_.k; ++i) {
        atk_state_[i] =
            load_one(initial, sequence.state_row * initial.stride[0] +
                                  key_head() * initial.stride[1] + i * initial.stride[2]);
      }
    }
  }
  if (c.bonus) {
    const TensorView& u = tensors[Slot::kU];
    for (int64_t i = 0; i < problem_.k; ++i) {
      bonus_[i] = load_one(u, key_head() * u.stride[0] + i * u.stride[1]);
    }
    chunk_.u = bonus_;
  }
}

HeadRows HeadIo::value_rows(const TensorView& view) const {
  if (problem_.canonical.unit_qk) {
    return HeadRows::flat(view, *sequence_, head_ * problem_.v + column_);
  }
  return {view, *sequence_, head_, column_};
}

void HeadIo::zero_padding(const Tile& tile) const {
  std::fill_n(tile.row(chunk_.tokens), (chunk_.rows - chunk_.tokens) * tile.ld, 0.0F);
}

void HeadIo::load_token_rows(const HeadRows& source, int64_t n, int64_t step,
                             const Tile& out) const {
  const int64_t steps = problem_.steps;
  if (steps == 1) {
    source.load(kernels_, sequence_->first + row_, chunk_.tokens, n, out, 0);
    zero_padding(out);
    return;
  }
  std::fill_n(out.data, chunk_.rows * out.ld, 0.0F);
  for (int64_t i = 0; i < chunk_.tokens; ++i) {
    if ((row_ + i) % steps != step)
      continue;
    source.load(kernels_, sequence_->first + (row_ + i) / steps, 1, n, out, i);
  }
}

void HeadIo::store_token_rows(const HeadRows& target, int64_t n, int64_t step, const Tile& in,
                              float alpha) const {
  const int64_t steps = problem_.steps;
  if (steps == 1) {
    target.store(kernels_, sequence_->first + row_, chunk_.tokens, n, in, 0, alpha);
    return;
  }
  for (int64_t i = 0; i < chunk_.tokens; ++i) {
    if ((row_ + i) % steps != step)
      continue;
    target.store(kernels_, sequence_->first + (row_ + i) / steps, 1, n, in, i, alpha);
  }
}

void HeadIo::load_column(const TensorView& view, int64_t head, bool per_row, float* out) const {
  const int64_t steps = problem_.steps;
  const int64_t base = sequence_->batch * view.stride[0] + head * view.stride[2];
  std::fill_n(out, chunk_.rows, 0.0F);
  for (int64_t i = 0; i < chunk_.tokens; ++i) {
    const int64_t row = row_ + i;
    if (per_row) {
      out[i] = load_one(view, base + (sequence_->first * steps + row) * view.stride[1]);
    } else if (row % steps == 0) {
      out[i] = load_one(view, base + (sequence_->first + row / steps) * view.stride[1]);
    }
  }
}

void HeadIo::load_keys(int64_t row, int64_t tokens) {
  const Canonical& c = problem_.canonical;
  const TensorSet& t = *tensors_;
  row_ = row;
  chunk_.tokens = tokens;
  chunk_.rows = round_up(tokens, kBlock);
  if (problem_.walk)
    chunk_.rows = tokens;
  const auto load = [&](Slot slot, const Tile& out) {
    key_rows(t[slot]).load(kernels_, sequence_->first * problem_.steps + row_, tokens, problem_.k,
                           out, 0);
    zero_padding(out);
  };
  if (c.unit_qk) {  // K = 1, q = k = 1
    for (const Tile& one : {chunk_.q, key_}) {
      std::fill_n(one.data, chunk_.rows * one.ld, 0.0F);
      for (int64_t i = 0; i < tokens; ++i)
        one.row(i)[0] = 1.0F;
    }
    return;
  }
  load_token_rows(key_rows(t[Slot::kQ]), problem_.k, problem_.steps - 1, chunk_.q);
  if (!c.key_from_gate)
    load(Slot::kK, key_);
  if (c.erase_key_is_p)
    load(Slot::kP, erase_);
  if (c.update == Update::kDplr) {
    load(Slot::kA, chunk_.e);
    load(Slot::kB, chunk_.b);
  }
  if (c.l2norm) {
    normalize_rows(chunk_.q, q_factor_);
    normalize_rows(key_, k_factor_);
    if (c.erase_key_is_p)
      normalize_rows(erase_, p_factor_);
  }
  if (c.precondition)
    precondition_keys();
}

void HeadIo::normalize_rows(const Tile& x, float* factor) const {
  kernels_.dot_rows(chunk_.rows, problem_.k, x.data, x.ld, x.data, x.ld, factor, false);
  for (int64_t i = 0; i < chunk_.rows; ++i)
    factor[i] = 1.0F / std::sqrt(factor[i] + kNormEpsilon);
  kernels_.scale_rows(chunk_.rows, problem_.k, factor, x.data, x.ld, x.data, x.ld);
}

void HeadIo::precondition_keys() {
  const TensorSet& t = *tensors_;
  const int64_t width = round_up(problem_.k, kPad);
  std::copy_n(atk_state_, width, atk_entry_);
  load_column(t[Slot::kGAtk], key_head(), false, g_atk_);
  load_column(t[Slot::kBetaAtk], key_head(), false, beta_atk_);
  const TensorView& scale = t[Slot::kLogAtkScale];
  const float offset =
      scale.data == nullptr ? kAtkScale : load_one(scale, key_head() * scale.stride[0]);
  for (int64_t i = 0; i < chunk_.rows; ++i) {
    const float decay = std::exp(g_atk_[i]);
    const float* key = key_.row(i);
    for (int64_t x = 0; x < width; ++x) {
      atk_state_[x] = decay * atk_state_[x] + beta_atk_[i] * key[x] * key[x];
      atk_.row(i)[x] = atk_state_[x];
      atk_log_.row(i)[x] = atk_state_[x] + kAtkEpsilon;
    }
  }
  kernels_.log_rows(chunk_.rows, problem_.k, atk_log_.data, atk_log_.ld, atk_log_.data,
                    atk_log_.ld);
  for (int64_t i = 0; i < chunk_.rows; ++i) {
    for (int64_t x = 0; x < width; ++x) {
      const float centred = atk_log_.row(i)[x] - offset;
      atk_log_.row(i)[x] = centred;
      atk_factor_.row(i)[x] = -kAtkLogBase * centred / (1.0F + std::fabs(centred));
    }
  }
  kernels_.exp_rows(chunk_.rows, problem_.k, atk_factor_.data, atk_factor_.ld, atk_factor_.data,
                    atk_factor_.ld);
  kernels_.mul(chunk_.rows, problem_.k, key_.data, key_.ld, atk_factor_.data, atk_factor_.ld,
               chunk_.k.data, chunk_.k.ld);
}

void HeadIo::set_precondition_state(const float* state) {
  std::copy_n(state, problem_.k, atk_state_);
}

void HeadIo::store_precondition_state() const {
  const TensorView& final_state = (*tensors_)[Slot::kFinalState2];
  if (final_state.data == nullptr)
    return;
  for (int64_t i = 0; i < problem_.k; ++i) {
    store_one(final_state,
              sequence_->state_row * final_state.stride[0] + key_head() * final_state.stride[1] +
                  i * final_state.stride[2],
              atk_state_[i]);
  }
}

void HeadIo::load_beta() {
  load_column((*tensors_)[Slot::kBeta], head_, true, beta_);
  if (!problem_.canonical.beta_logits)
    return;
  for (int64_t i = 0; i < chunk_.tokens; ++i) {
    beta_[i] = problem_.canonical.beta_factor / (1.0F + std::exp(-beta_[i]));
  }
}

void HeadIo::load_values() {
  const Canonical& c = problem_.canonical;
  const TensorSet& t = *tensors_;
  const int64_t rows = chunk_.rows;
  const int64_t values = c.normalize ? problem_.v : problem_.width;
  const int64_t first = sequence_->first * problem_.steps + row_;
  value_rows(t[Slot::kV]).load(kernels_, first, chunk_.tokens, values, value_, 0);
  zero_padding(value_);
  if (c.normalize) {
    for (int64_t i = 0; i < rows; ++i) {
      value_.row(i)[problem_.v] = i < chunk_.tokens ? 1.0F : 0.0F;
      std::fill(value_.row(i) + problem_.v + 1, value_.row(i) + round_up(problem_.width, kPad),
                0.0F);
    }
  }
  load_gate();
  if (c.slot_softmax) {
    HeadRows{t[Slot::kS], *sequence_, head_, 0}.load(kernels_, first, chunk_.tokens, problem_.m,
                                                     chunk_.s, 0);
    zero_padding(chunk_.s);
  }
  if (c.key_from_gate) {
    kernels_.one_minus_exp(rows, problem_.k, chunk_.g.data, chunk_.g.ld, chunk_.k.data,
                           chunk_.k.ld);
  }
  if (c.has_beta) {
    load_beta();
    kernels_.scale_rows(rows, problem_.width, beta_, value_.data, value_.ld, chunk_.v.data,
                        chunk_.v.ld);
    const Tile& key = c.erase_key_is_p ? erase_ : key_;
    kernels_.scale_rows(rows, problem_.k, beta_, key.data, key.ld, chunk_.e.data, chunk_.e.ld);
  } else if (c.channel_gates) {
    HeadRows{t[Slot::kEraseGate], *sequence_, head_, 0}.load(kernels_, first, chunk_.tokens,
                                                             problem_.k, erase_gate_, 0);
    value_rows(t[Slot::kWriteGate])
        .load(kernels_, first, chunk_.tokens, problem_.width, write_gate_, 0);
    zero_padding(erase_gate_);
    zero_padding(write_gate_);
    kernels_.mul(rows, problem_.width, value_.data, value_.ld, write_gate_.data, write_gate_.ld,
                 chunk_.v.data, chunk_.v.ld);
    kernels_.mul(rows, problem_.k, key_.data, key_.ld, erase_gate_.data, erase_gate_.ld,
                 chunk_.e.data, chunk_.e.ld);
  } else if (c.update == Update::kDelta) {  // comba without beta
    const Tile& key = c.erase_key_is_p ? erase_ : key_;
    std::copy_n(key.data, rows * key.ld, chunk_.e.data);
  } else if (c.dt_gate) {
    kernels_.scale_rows(rows, problem_.width, step_size_, value_.data, value_.ld, chunk_.v.data,
                        chunk_.v.ld);
  }
}

float HeadIo::head_parameter(Slot slot, float missing) const {
  const TensorView& view = (*tensors_)[slot];
  return view.data == nullptr ? missing : load_one(view, head_ * view.stride[0]);
}

void HeadIo::load_gate() {
  const Canonical& c = problem_.canonical;
  const TensorView& g = (*tensors_)[Slot::kG];
  chunk_.g_row = nullptr;
  switch (c.decay) {
    case Decay::kNone:
      return;
    case Decay::kHead: {
      const float decay = c.head_log_decay.empty() ? head_parameter(Slot::kGGamma, 0.0F)
                                                   : c.head_log_decay[static_cast<size_t>(head_)];
      std::fill_n(gate_, chunk_.tokens, decay);
      std::fill(gate_ + chunk_.tokens, gate_ + chunk_.rows, 0.0F);
      chunk_.g_row = gate_;
      return;
    }
    case Decay::kScalar:
      load_column(g, head_, false, gate_);
      if (c.dt_gate || c.gate_input != GateInput::kLog)
        activate_scalar_gate();
      chunk_.g_row = gate_;
      return;
    case Decay::kVector:
    case Decay::kValueVector: {
      const Tile& raw = c.gate_input == GateInput::kLog ? chunk_.g : gate_raw_;
      const bool on_values = c.decay == Decay::kValueVector;
      load_token_rows(on_values ? value_rows(g) : HeadRows{g, *sequence_, head_, 0},
                      problem_.gate_channels(), 0, raw);
      if (c.gate_input != GateInput::kLog)
        activate_vector_gate(raw);
      return;
    }
  }
}

void HeadIo::activate_scalar_gate() {
  const float factor = -std::exp(head_parameter(Slot::kALog, 0.0F));
  const float bias = head_parameter(Slot::kDtBias, 0.0F);
  for (int64_t i = 0; i < chunk_.tokens; ++i) {
    const float x = gate_[i] + bias;
    const float softplus = std::max(x, 0.0F) + std::log1p(std::exp(-std::fabs(x)));
    gate_logit_[i] = x;
    gate_[i] = factor * softplus;
    step_size_[i] = softplus;
  }
  std::fill(step_size_ + chunk_.tokens, step_size_ + chunk_.rows, 0.0F);
}

void HeadIo::activate_vector_gate(const Tile& raw) {
  const Canonical& c = problem_.canonical;
  const TensorView& bias = (*tensors_)[Slot::kDtBias];
  const int64_t n = problem_.gate_channels();
  const int64_t width = round_up(n, kPad);
  if (bias.data != nullptr) {
    float* row = scratch_.row(0);
    std::fill_n(row, width, 0.0F);
    for (int64_t x = 0; x < n; ++x)
      row[x] = load_one(bias, (head_ * n + x) * bias.stride[0]);
    kernels_.add_scaled(chunk_.tokens, n, raw.data, raw.ld, 1.0F, row, 0, raw.data, raw.ld);
  }
  const float factor = std::exp(head_parameter(Slot::kALog, 0.0F));
  const Tile& g = chunk_.g;
  if (c.gate_input == GateInput::kSoftplus) {
    kernels_.softplus(chunk_.tokens, n, raw.data, raw.ld, g.data, g.ld);
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      for (int64_t x = 0; x < width; ++x)
        g.row(i)[x] *= -factor;
    }
  } else {
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      for (int64_t x = 0; x < width; ++x)
        g.row(i)[x] = factor * raw.row(i)[x];
    }
    kernels_.sigmoid(chunk_.tokens, n, g.data, g.ld, g.data, g.ld);
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      for (int64_t x = 0; x < width; ++x)
        g.row(i)[x] *= c.lower_bound;
    }
  }
  zero_padding(g);
}

void HeadIo::store_output() {
  const Canonical& c = problem_.canonical;
  const TensorView& o = (*tensors_)[Slot::kO];
  const Tile& out = chunk_.o;
  float alpha = problem_.output_scale();
  int64_t n = problem_.width;
  if (c.normalize) {
    n = problem_.v;
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      d_row_[i] = c.scale / (c.scale * out.row(i)[problem_.v] + 1e-10F);
    }
    kernels_.scale_rows(chunk_.tokens, n, d_row_, out.data, out.ld, out.data, out.ld);
    alpha = 1.0F;
  }
  if (has(Slot::kDSkip)) {
    const float skip = head_parameter(Slot::kDSkip, 0.0F);
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      for (int64_t x = 0; x < n; ++x) {
        out.row(i)[x] = alpha * out.row(i)[x] + skip * value_.row(i)[x];
      }
    }
    alpha = 1.0F;
  }
  store_token_rows(value_rows(o), n, problem_.steps - 1, out, alpha);
}

void HeadIo::store_zero_output(int64_t row, int64_t tokens) {
  row_ = row;
  chunk_.tokens = tokens;
  std::fill_n(chunk_.o.data, tokens * chunk_.o.ld, 0.0F);
  store_token_rows(value_rows((*tensors_)[Slot::kO]),
                   problem_.canonical.normalize ? problem_.v : problem_.width, problem_.steps - 1,
                   chunk_.o, 1.0F);
}

}  // namespace fla::cpu
