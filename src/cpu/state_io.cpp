// SPDX-License-Identifier: MIT
// State layouts: [N,HV,K,V], [N,HV,V,K], hgrn's [N,HV*V], gsa's pair, the normaliser's extra
// column.
#include "cpu/state_io.h"

#include <algorithm>
#include <cstring>

namespace fla::cpu {
namespace {

struct Sides {
  const TensorView& first;
  const TensorView& second;
};

Sides pick(const TensorSet& t, StateSide side) {
  switch (side) {
    case StateSide::kInitial:
      return {t[Slot::kInitialState], t[Slot::kInitialState2]};
    case StateSide::kFinal:
      return {t[Slot::kFinalState], t[Slot::kFinalState2]};
    case StateSide::kInitialGradient:
      return {t.grad(Slot::kInitialState), t.grad(Slot::kInitialState2)};
    case StateSide::kFinalGradient:
      return {t.grad(Slot::kFinalState), t.grad(Slot::kFinalState2)};
  }
  return {t[Slot::kInitialState], t[Slot::kInitialState2]};
}

// The matrix of a head from column `column` on; rows are keys whatever the memory order.
StateView matrix(const Problem& p, const TensorView& view, int64_t row, int64_t head,
                 int64_t column) {
  float* base = static_cast<float*>(view.data) + row * view.stride[0];
  if (p.canonical.unit_qk)
    return {base + (head * p.v + column) * view.stride[1], 0, 1};
  base += head * view.stride[1];
  const int64_t row_stride = view.stride[p.desc.state_v_first ? 3 : 2];
  const int64_t column_stride = view.stride[p.desc.state_v_first ? 2 : 3];
  return {base + column * column_stride, row_stride, column_stride};
}

// The part of a tile that an API matrix covers.
struct Piece {
  const TensorView& view;
  int64_t tile_row;
  int64_t rows;
  int64_t columns;
};

template <class F>
void for_pieces(const Problem& p, const Sides& sides, F f) {
  if (p.canonical.slot_softmax) {
    f(Piece{sides.first, 0, p.k, p.m});
    f(Piece{sides.second, round_up(p.k, kPad), p.m, p.width});
  } else {
    f(Piece{sides.first, 0, p.k, p.canonical.normalize ? p.v : p.width});
  }
}

int64_t row_of(const Sequence& sequence, StateSide side) {
  // Pools are a forward matter; gradients have one row a sequence.
  return side == StateSide::kInitial || side == StateSide::kFinal ? sequence.state_row
                                                                  : sequence.index;
}

}  // namespace

void load_state(const Problem& p, const TensorSet& tensors, StateSide side,
                const Sequence& sequence, int64_t head, int64_t column, const Tile& s) {
  std::fill_n(s.data, p.state_rows() * s.ld, 0.0F);
  if (side == StateSide::kInitial && !sequence.reads_state)
    return;
  const Sides sides = pick(tensors, side);
  const int64_t row = row_of(sequence, side);
  for_pieces(p, sides, [&](const Piece& piece) {
    if (piece.view.data == nullptr)
      return;
    matrix(p, piece.view, row, head, column)
        .load(piece.rows, piece.columns, {s.row(piece.tile_row), s.ld});
  });
  if (p.canonical.normalize && sides.second.data != nullptr) {  // z is the column after the values
    const TensorView& z = sides.second;
    const float* from = static_cast<float*>(z.data) + row * z.stride[0] + head * z.stride[1];
    for (int64_t i = 0; i < p.k; ++i)
      s.row(i)[p.v] = from[i * z.stride[2]];
  }
}

void store_state(const Problem& p, const TensorSet& tensors, StateSide side,
                 const Sequence& sequence, int64_t head, int64_t column, const Tile& s) {
  const Sides sides = pick(tensors, side);
  const int64_t row = row_of(sequence, side);
  for_pieces(p, sides, [&](const Piece& piece) {
    if (piece.view.data == nullptr)
      return;
    matrix(p, piece.view, row, head, column)
        .store(piece.rows, piece.columns, {s.row(piece.tile_row), s.ld});
  });
  if (p.canonical.normalize && sides.second.data != nullptr) {
    const TensorView& z = sides.second;
    float* to = static_cast<float*>(z.data) + row * z.stride[0] + head * z.stride[1];
    for (int64_t i = 0; i < p.k; ++i)
      to[i * z.stride[2]] = s.row(i)[p.v];
  }
}

Tile direct_state(const Problem& p, const TensorView& view, const Sequence& sequence,
                  int64_t head) {
  if (view.data == nullptr || p.canonical.slot_softmax || p.canonical.normalize || p.slabs > 1 ||
      p.desc.state_v_first || p.v % kPad != 0) {
    return {};
  }
  const StateView state = matrix(p, view, sequence.state_row, head, 0);
  return {state.data, state.row_stride};
}

void pack_state(const Problem& p, const Tile& s, float* packed) {
  const Sides none{{}, {}};
  for_pieces(p, none, [&](const Piece& piece) {
    const int64_t columns = p.canonical.normalize ? p.width : piece.columns;
    StateView{packed, columns, 1}.store(piece.rows, columns, {s.row(piece.tile_row), s.ld});
    packed += piece.rows * columns;
  });
}

void unpack_state(const Problem& p, const float* packed, const Tile& s) {
  // The padding is 0 already: a state tile is filled whole before a sequence starts.
  const Sides none{{}, {}};
  for_pieces(p, none, [&](const Piece& piece) {
    const int64_t columns = p.canonical.normalize ? p.width : piece.columns;
    StateView{const_cast<float*>(packed), columns, 1}.load(piece.rows, columns,
                                                           {s.row(piece.tile_row), s.ld});
    packed += piece.rows * columns;
  });
}

}  // namespace fla::cpu
