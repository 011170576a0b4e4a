// SPDX-License-Identifier: MIT
// States of a head between user tensors, the working tile and the packed tape of chunk states.
#pragma once

#include <cstdint>

#include "cpu/problem.h"
#include "cpu/tile.h"
#include "cpu/views.h"
#include "fla/op.h"

namespace fla::cpu {

/// Which tensors of a TensorSet: the states themselves or their gradients.
enum class StateSide : uint8_t { kInitial, kFinal, kInitialGradient, kFinalGradient };

/// Fills the whole tile: zeros, then the state where it is given (and, for the initial side, read).
void load_state(const Problem& problem, const TensorSet& tensors, StateSide side,
                const Sequence& sequence, int64_t head, int64_t column, const Tile& s);
/// Writes the state where it is given; a gradient that the caller left null is not written.
void store_state(const Problem& problem, const TensorSet& tensors, StateSide side,
                 const Sequence& sequence, int64_t head, int64_t column, const Tile& s);

/// The user's own memory of a state as a tile, or null data when its layout does not serve (v
/// first, normaliser, padding, two states).
Tile direct_state(const Problem& problem, const TensorView& view, const Sequence& sequence,
                  int64_t head);

/// Packed copies of state_floats() floats.
void pack_state(const Problem& problem, const Tile& s, float* packed);
void unpack_state(const Problem& problem, const float* packed, const Tile& s);

}  // namespace fla::cpu
