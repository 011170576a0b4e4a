// SPDX-License-Identifier: MIT
// The chunk loops: forward, token by token, and backward with the tape of chunk states.
#include "cpu/worker.h"

#include <algorithm>
#include <utility>

#include "cpu/state_io.h"

namespace fla::cpu {
namespace {

Decay recurrence_decay(Decay decay) {
  return decay == Decay::kHead ? Decay::kScalar : decay;
}

Recurrence* make_recurrence(const Problem& p, Arena* arena) {
  const Canonical& c = p.canonical;
  const Kernels& kernels = *p.kernels;
  const bool backward = p.backward();
  const Decay decay = recurrence_decay(c.decay);
  if (c.slot_softmax) {
    Recurrence* keys = nullptr;
    Recurrence* values = nullptr;
    if (p.walk) {
      keys = arena->make<TokenWalk>(kernels, c, Decay::kValueVector, p.k, p.m, arena);
      values = arena->make<TokenWalk>(kernels, c, Decay::kVector, p.m, p.width, arena);
    } else {
      keys = make_value_decay_add(kernels, p.k, p.m, arena, backward);
      values = make_add(kernels, Decay::kVector, p.m, p.width, arena, backward);
    }
    return make_slot_attention(kernels, keys, values, c.scale, p.k, p.m, arena, backward);
  }
  if (decay == Decay::kValueVector) {
    return make_value_decay_add(kernels, p.k, p.width, arena, backward);
  }
  switch (c.update) {
    case Update::kAdd:
      return make_add(kernels, decay, p.k, p.width, arena, backward);
    case Update::kDelta:
      return make_delta(kernels, decay, c.erase_undecayed, p.k, p.width, arena, backward);
    case Update::kDplr:
      return make_dplr(kernels, decay, p.k, p.width, arena, backward);
  }
  return nullptr;
}

}  // namespace

Worker::Worker(const Problem& p, Arena* arena)
    : problem_(p), io_(p, arena), state_(arena->tile(p.state_rows(), p.state_columns())) {
  if (p.walk && !p.canonical.slot_softmax) {
    walk_ = arena->make<TokenWalk>(*p.kernels, p.canonical, recurrence_decay(p.canonical.decay),
                                   p.k, p.width, arena);
  } else {
    recurrence_ = make_recurrence(p, arena);
  }
  if (!p.backward())
    return;
  if (p.canonical.normalize)
    trial_ = arena->tile(p.state_rows(), p.state_columns());
  leaving_ = arena->take<Tile>(p.group);
  gradient_ = arena->take<Tile>(p.group);
  for (int64_t i = 0; i < p.group; ++i) {
    const Tile leaving = arena->tile(p.state_rows(), p.state_columns());
    const Tile gradient = arena->tile(p.state_rows(), p.state_columns());
    if (leaving_ == nullptr)
      continue;  // only counting
    leaving_[i] = leaving;
    gradient_[i] = gradient;
  }
}

void Worker::forward(const TensorSet& tensors, const Sequence& sequence, int64_t head,
                     int64_t slab) {
  const int64_t column = slab * problem_.width;
  const int64_t rows = inner_rows(sequence);
  io_.start(tensors, sequence, head, column);
  if (sequence.state_row < 0) {
    for (int64_t row = 0; row < rows; row += problem_.chunk_rows) {
      io_.store_zero_output(row, std::min(problem_.chunk_rows, rows - row));
    }
    return;
  }
  if (walk_ != nullptr) {
    walk(tensors, sequence, head);
  } else {
    load_state(problem_, tensors, StateSide::kInitial, sequence, head, column, state_);
    for (int64_t row = 0; row < rows; row += kChunk) {
      io_.load_keys(row, std::min(kChunk, rows - row));
      io_.load_values();
      recurrence_->forward(io_.chunk(), state_);
      io_.store_output();
    }
    store_state(problem_, tensors, StateSide::kFinal, sequence, head, column, state_);
  }
  if (problem_.canonical.precondition && (head + 1) % problem_.group == 0) {
    io_.store_precondition_state();
  }
}

void Worker::walk(const TensorSet& tensors, const Sequence& sequence, int64_t head) {
  const int64_t rows = inner_rows(sequence);
  const int64_t column = 0;
  Tile in;
  Tile out;
  if (rows > 0) {  // read and write the caller's states themselves where their layout allows it
    if (sequence.reads_state) {
      in = direct_state(problem_, tensors[Slot::kInitialState], sequence, head);
    }
    out = direct_state(problem_, tensors[Slot::kFinalState], sequence, head);
  }
  if (in.data == nullptr) {
    load_state(problem_, tensors, StateSide::kInitial, sequence, head, column, state_);
    in = state_;
  }
  const bool stored = out.data != nullptr;
  if (!stored)
    out = state_;
  for (int64_t row = 0; row < rows; row += problem_.chunk_rows) {
    io_.load_keys(row, std::min(problem_.chunk_rows, rows - row));
    io_.load_values();
    walk_->walk(io_.chunk(), in, out);
    io_.store_output();
    in = out;
  }
  if (!stored)
    store_state(problem_, tensors, StateSide::kFinal, sequence, head, column, in);
}

int64_t Worker::tape_floats(const Problem& p) {
  return p.group * p.state_floats() + (p.canonical.precondition ? p.k : 0);
}

void Worker::record_states(const TensorSet& tensors, const Sequence& sequence, int64_t key_head,
                           float* tape) {
  const int64_t rows = inner_rows(sequence);
  const int64_t state_floats = problem_.state_floats();
  for (int64_t i = 0; i < problem_.group; ++i) {
    const int64_t head = key_head * problem_.group + i;
    const Tile& state = leaving_[i];
    io_.start(tensors, sequence, head, 0);
    load_state(problem_, tensors, StateSide::kInitial, sequence, head, 0, state);
    float* entry = tape;
    for (int64_t row = 0; row < rows; row += kChunk, entry += tape_floats(problem_)) {
      pack_state(problem_, state, entry + i * state_floats);
      if (problem_.canonical.precondition) {
        std::copy_n(io_.precondition_state(), problem_.k, entry + problem_.group * state_floats);
      }
      io_.load_keys(row, std::min(kChunk, rows - row));
      io_.load_values();
      recurrence_->advance(io_.chunk(), state);
    }
    load_state(problem_, tensors, StateSide::kFinalGradient, sequence, head, 0, gradient_[i]);
  }
}

void Worker::backward(const TensorSet& tensors, const Sequence& sequence, int64_t key_head,
                      const ParameterSums& sums, float* tape) {
  const int64_t first_head = key_head * problem_.group;
  const int64_t rows = inner_rows(sequence);
  record_states(tensors, sequence, key_head, tape);
  std::fill_n(state_.data, problem_.state_rows() * state_.ld, 0.0F);
  io_.start_backward(sums);
  for (int64_t chunk = (rows + kChunk - 1) / kChunk - 1; chunk >= 0; --chunk) {
    const float* entry = tape + chunk * tape_floats(problem_);
    if (problem_.canonical.precondition) {
      io_.set_precondition_state(entry + problem_.group * problem_.state_floats());
    }
    io_.load_keys(chunk * kChunk, std::min(kChunk, rows - chunk * kChunk));
    backward_chunk(first_head, entry);
  }
  for (int64_t i = 0; i < problem_.group; ++i) {
    if (!sequence.reads_state) {
      std::fill_n(gradient_[i].data, problem_.state_rows() * gradient_[i].ld, 0.0F);
    }
    store_state(problem_, tensors, StateSide::kInitialGradient, sequence, first_head + i, 0,
                gradient_[i]);
  }
  if (problem_.canonical.precondition)
    io_.store_precondition_gradient();
}

void Worker::backward_chunk(int64_t first_head, const float* tape) {
  io_.clear_key_gradients();
  for (int64_t i = 0; i < problem_.group; ++i) {
    io_.set_head(first_head + i);
    io_.load_values();
    unpack_state(problem_, tape + i * problem_.state_floats(), state_);
    if (problem_.canonical.normalize) {
      std::copy_n(state_.data, problem_.state_rows() * state_.ld, trial_.data);
      recurrence_->forward(io_.chunk(), trial_);
    }
    io_.load_output_gradient();
    recurrence_->backward(io_.chunk(), state_, leaving_[i], gradient_[i]);
    io_.fold_gradients();
    std::swap(state_, leaving_[i]);
  }
  io_.store_key_gradients();
}

}  // namespace fla::cpu
