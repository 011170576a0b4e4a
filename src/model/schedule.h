// SPDX-License-Identifier: MIT
// Schedule: the order in which a graph's nodes run, forward and backward, and where every matrix
// lies meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.h"

namespace fla::model {

/// A stretch of the arena between two steps.
struct Buffer {
  int64_t bytes = 0;
  int32_t first = 0;  // step that writes it
  int32_t last = 0;   // step that reads it last
  int64_t offset = 0;
};

/// Where one tensor of a node lies at a step.
struct Place {
  int32_t buffer = -1;  // -1: not in the arena (parameters, inputs, states, outputs), or not given
  bool packed = false;  // the tensor alone, without the matrix that it is a part of
  bool wanted = false;  // gradients: to be written
};

enum class StepKind : uint8_t { kForward, kBackward, kZero, kAdd };

/// One launch of a node, or a fix-up of a gradient: kZero clears columns that no node writes, kAdd
/// adds a packed gradient to the one that is there.
struct Step {
  StepKind kind = StepKind::kForward;
  int32_t node = -1;
  std::vector<Place> values = {};  // of modules: inputs, then outputs; of operators: as Node::slots
  std::vector<Place> grads = {};   // likewise
  uint32_t accumulate = 0;         // modules: inputs whose gradient is added to
  Tensor tensor = {};              // kZero, kAdd: what is written; kZero: of its matrix the columns
  int64_t first_column = 0;        // from here
  int64_t end_column = 0;          // to before this
  Place target = {};
  Place source = {};
};

struct Schedule {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  int64_t arena_bytes = 0;
  /// Parameters: the step that writes the gradient last; [Tensor::id], -1 for what has none.
  std::vector<int32_t> gradient_done;
};

/// What the backward pass computes again instead of keeping.
enum class Recompute : uint8_t {
  kNothing,  // 0
  kCheap,    // 1: norms, convolutions, activations
  kBlocks,   // 2: everything between the inputs of blocks
};

/// Forward alone, or with gradients of all parameters where `gradients`.
Schedule make_schedule(const Graph& graph, bool gradients, Recompute recompute);

}  // namespace fla::model
