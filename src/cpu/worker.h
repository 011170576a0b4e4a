// SPDX-License-Identifier: MIT
// Worker: what one thread does with one head of one sequence.
#pragma once

#include <cstdint>

#include "cpu/head.h"
#include "cpu/problem.h"
#include "cpu/recurrence.h"
#include "cpu/tile.h"

namespace fla::cpu {

class Worker {
 public:
  /// Places its tiles and recurrences in `arena`; owns nothing.
  Worker(const Problem& problem, Arena* arena);

  /// o and the final state of a value head, columns of slab `slab`.
  void forward(const TensorSet& tensors, const Sequence& sequence, int64_t head, int64_t slab);
  /// All gradients of a key head and its group of value heads. `tape` holds tape_floats() floats a
  /// chunk.
  void backward(const TensorSet& tensors, const Sequence& sequence, int64_t key_head,
                const ParameterSums& sums, float* tape);

  /// Floats that the backward pass keeps per chunk of a key head: the states entering it.
  static int64_t tape_floats(const Problem& problem);

 private:
  void walk(const TensorSet& tensors, const Sequence& sequence, int64_t head);
  void record_states(const TensorSet& tensors, const Sequence& sequence, int64_t key_head,
                     float* tape);
  void backward_chunk(int64_t first_head, const float* tape);
  int64_t inner_rows(const Sequence& sequence) const { return sequence.tokens * problem_.steps; }

  const Problem& problem_;
  HeadIo io_;
  TokenWalk* walk_ = nullptr;
  Recurrence* recurrence_ = nullptr;
  Tile state_;
  Tile trial_;                // a state advanced only for its outputs
  Tile* leaving_ = nullptr;   // [group] state leaving the chunk
  Tile* gradient_ = nullptr;  // [group] its gradient
};

}  // namespace fla::cpu
