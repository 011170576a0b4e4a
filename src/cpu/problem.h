// SPDX-License-Identifier: MIT
// Problem: what a planned call knows before it sees tensors, and Sequence: one independent run of
// tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/canonical.h"
#include "cpu/kernels.h"
#include "cpu/tile.h"
#include "fla/op.h"

namespace fla::cpu {

struct Problem {
  Canonical canonical;
  OpDesc desc;
  const Kernels* kernels = nullptr;

  int64_t key_heads = 0;
  int64_t value_heads = 0;
  int64_t group = 0;  // value heads a key head
  int64_t steps = 0;  // rows a token: inner steps of a delta product
  int64_t k = 0;      // key dimension of the recurrence
  int64_t v = 0;      // value dimension at the API
  int64_t m = 0;      // gsa slots
  int64_t width = 0;  // value columns of a task: v, v + 1 with the normaliser, or a slab of v
  int64_t slabs = 1;
  bool walk = false;            // token by token
  int64_t chunk_rows = kChunk;  // rows of the tiles; fewer when no chunk is full

  bool backward() const { return desc.pass == Pass::kBackward; }
  /// gsa's scale belongs to its scores.
  float output_scale() const { return canonical.slot_softmax ? 1.0F : canonical.scale; }
  /// Rows and columns of the state tile.
  int64_t state_rows() const {
    return canonical.slot_softmax ? round_up(k, kPad) + round_up(m, kPad) : round_up(k, kPad);
  }
  int64_t state_columns() const { return canonical.slot_softmax ? std::max(m, width) : width; }
  /// Floats of a state without padding.
  int64_t state_floats() const { return canonical.slot_softmax ? k * m + m * width : k * width; }
  /// Decay channels of the gate tile, 0 for a scalar gate or none.
  int64_t gate_channels() const {
    if (canonical.slot_softmax)
      return m;
    switch (canonical.decay) {
      case Decay::kVector:
        return k;
      case Decay::kValueVector:
        return width;
      default:
        return 0;
    }
  }
};

struct Sequence {
  int64_t index = 0;  // n
  int64_t batch = 0;  // row of the batch axis
  int64_t first = 0;  // first token
  int64_t tokens = 0;
  int64_t state_row = 0;  // row of the states; -1: skipped
  bool reads_state = false;
};

}  // namespace fla::cpu
