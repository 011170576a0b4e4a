// SPDX-License-Identifier: MIT
// HeadIo, backward: the chain rules of math.md 5 and the stores of gradients.
#include <algorithm>
#include <cmath>

#include "cpu/head.h"

namespace fla::cpu {
void HeadIo::start_backward(const ParameterSums& sums) {
  sums_ = sums;
  if (atk_gradient_ == nullptr)
    return;
  std::fill_n(atk_gradient_, round_up(problem_.k, kPad), 0.0F);
  const TensorView& d_final = tensors_->grad(Slot::kFinalState2);
  if (d_final.data == nullptr)
    return;
  for (int64_t i = 0; i < problem_.k; ++i) {
    atk_gradient_[i] =
        load_one(d_final, sequence_->index * d_final.stride[0] + key_head() * d_final.stride[1] +
                              i * d_final.stride[2]);
  }
}

void HeadIo::store_precondition_gradient() const {
  const TensorView& d_initial = tensors_->grad(Slot::kInitialState2);
  if (d_initial.data == nullptr)
    return;
  for (int64_t i = 0; i < problem_.k; ++i) {
    store_one(d_initial,
              sequence_->index * d_initial.stride[0] + key_head() * d_initial.stride[1] +
                  i * d_initial.stride[2],
              sequence_->reads_state ? atk_gradient_[i] : 0.0F);
  }
}

void HeadIo::clear_key_gradients() {
  for (const Tile& sum : {q_sum_, k_sum_, p_sum_, a_sum_, b_sum_, write_key_sum_}) {
    std::fill_n(sum.data, chunk_.rows * sum.ld, 0.0F);
  }
  if (d_bonus_ != nullptr) {
    std::fill_n(d_bonus_, round_up(problem_.k, kPad), 0.0F);
    chunk_.du = d_bonus_;
  }
}

void HeadIo::load_output_gradient() {
  const Canonical& c = problem_.canonical;
  const int64_t n = c.normalize ? problem_.v : problem_.width;
  const Tile& d_o = chunk_.d_o;
  load_token_rows(value_rows(tensors_->grad(Slot::kO)), n, problem_.steps - 1, d_o);
  if (c.normalize) {
    // out = scale o / den: the column of den gets its own gradient.
    const Tile& o = chunk_.o;
    for (int64_t i = 0; i < chunk_.rows; ++i) {
      float* row = d_o.row(i);
      const float inverse = 1.0F / (c.scale * o.row(i)[problem_.v] + 1e-10F);
      float dot = 0.0F;
      for (int64_t x = 0; x < problem_.v; ++x) {
        dot += row[x] * (c.scale * o.row(i)[x] * inverse);
        row[x] *= inverse;
      }
      std::fill(row + problem_.v, row + round_up(problem_.width, kPad), 0.0F);
      row[problem_.v] = i < chunk_.tokens ? -dot * inverse : 0.0F;
      if (i >= chunk_.tokens)
        std::fill_n(row, problem_.v, 0.0F);
    }
  }
  kernels_.add_scaled(chunk_.rows, problem_.width, d_o.data, d_o.ld, problem_.output_scale() - 1.0F,
                      d_o.data, d_o.ld, d_o.data, d_o.ld);
}

void HeadIo::store_column(const TensorView& view, int64_t head, bool per_row,
                          const float* in) const {
  if (view.data == nullptr)
    return;
  const int64_t steps = problem_.steps;
  const int64_t base = sequence_->batch * view.stride[0] + head * view.stride[2];
  for (int64_t i = 0; i < chunk_.tokens; ++i) {
    const int64_t row = row_ + i;
    if (per_row) {
      store_one(view, base + (sequence_->first * steps + row) * view.stride[1], in[i]);
    } else if (row % steps == 0) {
      store_one(view, base + (sequence_->first + row / steps) * view.stride[1], in[i]);
    }
  }
}

void HeadIo::fold_gradients() {
  const Canonical& c = problem_.canonical;
  const int64_t rows = chunk_.rows;
  const auto add = [&](const Tile& gradient, const Tile& sum) {
    kernels_.add_scaled(rows, problem_.k, sum.data, sum.ld, 1.0F, gradient.data, gradient.ld,
                        sum.data, sum.ld);
  };
  add(chunk_.dq, q_sum_);
  if (c.key_from_gate) {  // k = 1 - e^g: dg -= e^g dk
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t x = 0; x < problem_.k; ++x) {
        chunk_.dg.row(i)[x] -= (1.0F - chunk_.k.row(i)[x]) * chunk_.dk.row(i)[x];
      }
    }
  } else {
    add(chunk_.dk, c.precondition ? write_key_sum_ : k_sum_);
  }
  if (c.update == Update::kDplr) {
    add(chunk_.de, a_sum_);
    add(chunk_.db, b_sum_);
  } else if (c.has_beta) {
    fold_beta();
  } else if (c.channel_gates) {
    fold_channel_gates();
  } else if (c.update == Update::kDelta) {
    add(chunk_.de, c.erase_key_is_p ? p_sum_ : k_sum_);
  }
  fold_gate();

  const int64_t first = sequence_->first * problem_.steps + row_;
  if (wants(Slot::kV)) {
    value_rows(tensors_->grad(Slot::kV))
        .store(kernels_, first, chunk_.tokens, c.normalize ? problem_.v : problem_.width, chunk_.dv,
               0, 1.0F);
  }
  if (wants(Slot::kS)) {
    HeadRows{tensors_->grad(Slot::kS), *sequence_, head_, 0}.store(kernels_, first, chunk_.tokens,
                                                                   problem_.m, chunk_.ds, 0, 1.0F);
  }
  if (sums_.u != nullptr) {
    for (int64_t x = 0; x < problem_.k; ++x) {
      sums_.u[key_head() * problem_.k + x] += static_cast<double>(d_bonus_[x]);
    }
    std::fill_n(d_bonus_, problem_.k, 0.0F);
  }
}

void HeadIo::fold_beta() {
  const Canonical& c = problem_.canonical;
  const int64_t rows = chunk_.rows;
  const Tile& key = c.erase_key_is_p ? erase_ : key_;
  const Tile& sum = c.erase_key_is_p ? p_sum_ : k_sum_;
  kernels_.dot_rows(rows, problem_.k, chunk_.de.data, chunk_.de.ld, key.data, key.ld, d_row_,
                    false);
  kernels_.dot_rows(rows, problem_.width, chunk_.dv.data, chunk_.dv.ld, value_.data, value_.ld,
                    d_row_, true);
  kernels_.scale_rows_add(rows, problem_.k, beta_, chunk_.de.data, chunk_.de.ld, sum.data, sum.ld);
  kernels_.scale_rows(rows, problem_.width, beta_, chunk_.dv.data, chunk_.dv.ld, chunk_.dv.data,
                      chunk_.dv.ld);
  if (c.beta_logits) {
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      d_row_[i] *= beta_[i] * (1.0F - beta_[i] / c.beta_factor);
    }
  }
  store_column(tensors_->grad(Slot::kBeta), head_, true, d_row_);
}

void HeadIo::fold_channel_gates() {
  const int64_t rows = chunk_.rows;
  const int64_t first = sequence_->first + row_;
  kernels_.mul_add(rows, problem_.k, erase_gate_.data, erase_gate_.ld, chunk_.de.data, chunk_.de.ld,
                   k_sum_.data, k_sum_.ld);
  if (wants(Slot::kEraseGate)) {
    kernels_.mul(rows, problem_.k, key_.data, key_.ld, chunk_.de.data, chunk_.de.ld, scratch_.data,
                 scratch_.ld);
    HeadRows{tensors_->grad(Slot::kEraseGate), *sequence_, head_, 0}.store(
        kernels_, first, chunk_.tokens, problem_.k, scratch_, 0, 1.0F);
  }
  if (wants(Slot::kWriteGate)) {
    kernels_.mul(rows, problem_.width, value_.data, value_.ld, chunk_.dv.data, chunk_.dv.ld,
                 scratch_.data, scratch_.ld);
    value_rows(tensors_->grad(Slot::kWriteGate))
        .store(kernels_, first, chunk_.tokens, problem_.width, scratch_, 0, 1.0F);
  }
  kernels_.mul(rows, problem_.width, write_gate_.data, write_gate_.ld, chunk_.dv.data, chunk_.dv.ld,
               chunk_.dv.data, chunk_.dv.ld);
}

void HeadIo::fold_gate() {
  switch (problem_.canonical.decay) {
    case Decay::kNone:
      return;
    case Decay::kHead:
      for (int64_t i = 0; i < chunk_.tokens && sums_.g_gamma != nullptr; ++i) {
        sums_.g_gamma[head_] += static_cast<double>(chunk_.dg_row[i]);
      }
      return;
    case Decay::kScalar:
      fold_scalar_gate();
      return;
    case Decay::kVector:
    case Decay::kValueVector:
      fold_vector_gate();
      return;
  }
}

void HeadIo::fold_scalar_gate() {
  const Canonical& c = problem_.canonical;
  float* dg = chunk_.dg_row;
  if (!c.dt_gate && c.gate_input == GateInput::kLog) {
    store_column(tensors_->grad(Slot::kG), head_, false, dg);
    return;
  }
  const float factor = -std::exp(head_parameter(Slot::kALog, 0.0F));
  if (sums_.a_log != nullptr) {
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      sums_.a_log[head_] += static_cast<double>(dg[i]) * static_cast<double>(gate_[i]);
    }
  }
  for (int64_t i = 0; i < chunk_.tokens; ++i)
    dg[i] *= factor;
  if (c.dt_gate) {  // v = dt x, y = o + D x
    kernels_.dot_rows(chunk_.rows, problem_.width, chunk_.dv.data, chunk_.dv.ld, value_.data,
                      value_.ld, dg, true);
    kernels_.scale_rows(chunk_.rows, problem_.width, step_size_, chunk_.dv.data, chunk_.dv.ld,
                        chunk_.dv.data, chunk_.dv.ld);
    if (has(Slot::kDSkip)) {
      load_token_rows(value_rows(tensors_->grad(Slot::kO)), problem_.width, 0, scratch_);
      kernels_.add_scaled(chunk_.rows, problem_.width, chunk_.dv.data, chunk_.dv.ld,
                          head_parameter(Slot::kDSkip, 0.0F), scratch_.data, scratch_.ld,
                          chunk_.dv.data, chunk_.dv.ld);
      kernels_.dot_rows(chunk_.rows, problem_.width, scratch_.data, scratch_.ld, value_.data,
                        value_.ld, d_row_, false);
      for (int64_t i = 0; i < chunk_.tokens && sums_.d_skip != nullptr; ++i) {
        sums_.d_skip[head_] += static_cast<double>(d_row_[i]);
      }
    }
  }
  for (int64_t i = 0; i < chunk_.tokens; ++i) {
    dg[i] /= 1.0F + std::exp(-gate_logit_[i]);
    if (sums_.dt_bias != nullptr)
      sums_.dt_bias[head_] += static_cast<double>(dg[i]);
  }
  store_column(tensors_->grad(Slot::kG), head_, false, dg);
}

void HeadIo::fold_vector_gate() {
  const Canonical& c = problem_.canonical;
  const int64_t n = problem_.gate_channels();
  const Tile& dg = chunk_.dg;
  if (c.gate_input != GateInput::kLog) {
    const float factor = std::exp(head_parameter(Slot::kALog, 0.0F));
    if (c.gate_input == GateInput::kSoftplus) {
      kernels_.sigmoid(chunk_.tokens, n, gate_raw_.data, gate_raw_.ld, scratch_.data, scratch_.ld);
    }
    double a_log = 0.0;
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      for (int64_t x = 0; x < n; ++x) {
        const float gradient = dg.row(i)[x];
        const float g = chunk_.g.row(i)[x];
        float d_logit = 0.0F;
        if (c.gate_input == GateInput::kSoftplus) {
          d_logit = -factor * scratch_.row(i)[x] * gradient;
          a_log += static_cast<double>(gradient) * static_cast<double>(g);
        } else {
          d_logit = g * (1.0F - g / c.lower_bound) * factor * gradient;
          a_log += static_cast<double>(d_logit) * static_cast<double>(gate_raw_.row(i)[x]);
        }
        dg.row(i)[x] = d_logit;
        if (sums_.dt_bias != nullptr)
          sums_.dt_bias[head_ * n + x] += static_cast<double>(d_logit);
      }
    }
    if (sums_.a_log != nullptr)
      sums_.a_log[head_] += a_log;
  }
  if (!wants(Slot::kG))
    return;
  const TensorView& out = tensors_->grad(Slot::kG);
  store_token_rows(
      c.decay == Decay::kValueVector ? value_rows(out) : HeadRows{out, *sequence_, head_, 0}, n, 0,
      dg, 1.0F);
}

void HeadIo::normalize_gradient(const Tile& y, const float* factor, const Tile& dy) const {
  const int64_t rows = chunk_.rows;
  kernels_.dot_rows(rows, problem_.k, y.data, y.ld, dy.data, dy.ld, d_row_, false);
  for (int64_t i = 0; i < rows; ++i)
    d_row_[i] = -d_row_[i];
  kernels_.scale_rows_add(rows, problem_.k, d_row_, y.data, y.ld, dy.data, dy.ld);
  kernels_.scale_rows(rows, problem_.k, factor, dy.data, dy.ld, dy.data, dy.ld);
}

void HeadIo::store_key_gradients() {
  const Canonical& c = problem_.canonical;
  if (c.unit_qk)
    return;
  if (c.precondition)
    precondition_gradient();
  if (c.l2norm) {
    normalize_gradient(chunk_.q, q_factor_, q_sum_);
    normalize_gradient(key_, k_factor_, k_sum_);
    if (c.erase_key_is_p)
      normalize_gradient(erase_, p_factor_, p_sum_);
  }
  if (wants(Slot::kQ)) {
    store_token_rows(key_rows(tensors_->grad(Slot::kQ)), problem_.k, problem_.steps - 1, q_sum_,
                     1.0F);
  }
  const auto store = [&](Slot slot, const Tile& sum) {
    if (!wants(slot))
      return;
    key_rows(tensors_->grad(slot))
        .store(kernels_, sequence_->first * problem_.steps + row_, chunk_.tokens, problem_.k, sum,
               0, 1.0F);
  };
  store(Slot::kK, k_sum_);
  store(Slot::kP, p_sum_);
  store(Slot::kA, a_sum_);
  store(Slot::kB, b_sum_);
}

// math.md 5.8, walked backwards with dA in atk_gradient_.
void HeadIo::precondition_gradient() {
  double d_scale = 0.0;
  for (int64_t i = chunk_.tokens - 1; i >= 0; --i) {
    const float decay = std::exp(g_atk_[i]);
    const float beta = beta_atk_[i];
    const float* previous = i > 0 ? atk_.row(i - 1) : atk_entry_;
    double d_gate = 0.0;
    double d_beta = 0.0;
    for (int64_t x = 0; x < problem_.k; ++x) {
      const float key = key_.row(i)[x];
      const float factor = atk_factor_.row(i)[x];
      const float d_write = write_key_sum_.row(i)[x];
      const float span = 1.0F + std::fabs(atk_log_.row(i)[x]);
      const float d_log = -kAtkLogBase * factor * d_write * key / (span * span);
      d_scale -= static_cast<double>(d_log);
      const float w = atk_gradient_[x] + d_log / (atk_.row(i)[x] + kAtkEpsilon);
      d_beta += static_cast<double>(w * key * key);
      k_sum_.row(i)[x] += d_write * factor + 2.0F * beta * key * w;
      atk_gradient_[x] = decay * w;
      d_gate += static_cast<double>(atk_gradient_[x] * previous[x]);
    }
    g_atk_[i] = static_cast<float>(d_gate);
    beta_atk_[i] = static_cast<float>(d_beta);
  }
  store_column(tensors_->grad(Slot::kGAtk), key_head(), false, g_atk_);
  store_column(tensors_->grad(Slot::kBetaAtk), key_head(), false, beta_atk_);
  if (sums_.log_atk_scale != nullptr)
    sums_.log_atk_scale[key_head()] += d_scale;
}

}  // namespace fla::cpu
