// SPDX-License-Identifier: MIT
// ChunkDecay: everything that a gate does to one chunk (math.md 3.2, 4): PAIR matrices, scaled
// rows, their adjoints and the chunk's decay of the state. Written for none, scalar and vector
// decays, so that the recurrences need not know.
#pragma once

#include <cstdint>

#include "core/canonical.h"
#include "cpu/kernels.h"
#include "cpu/tile.h"

namespace fla::cpu {

/// A row side of PAIR: X with its matrix P = PAIR(X, Y; rho) and X e^{rho}.
struct RowSide {
  Tile x;                  // [L, n]
  bool exclusive = false;  // rho = G-hat, strict mask; otherwise rho = G
  Tile matrix;  // forward out: P [L, L]; on the diagonal only an exclusive side is masked; adjoint
                // in: the masked gradient of P
  Tile scaled;  // forward out: X e^{rho} [L, n]; adjoint in: its gradient
};

class ChunkDecay {
 public:
  /// `kind` kNone, kScalar (also for constants) or kVector over n channels; rows are at most
  /// kChunk.
  ChunkDecay(const Kernels& kernels, Decay kind, int64_t n, Arena* arena);

  /// Takes the chunk's gates: g [rows, n] or g [rows], natural log, <= 0. `rows` is a multiple of
  /// kBlock; padded rows hold 0.
  void set(int64_t rows, const Tile& g_vector, const float* g_scalar);

  /// The decays d = e^g [rows, n] of a vector gate.
  const Tile& decays() const { return d_; }
  /// The decays of a scalar gate, one a row.
  const float* row_decays() const { return scalar_d_; }

  /// P and X e^{rho} of none to two row sides (in their `matrix` and `scaled`), and (Y
  /// e^{Gamma-G})^T [n, rows].
  void pair(RowSide* sides, int num_sides, const Tile& y, const Tile& y_scaled_t);

  /// Adjoint on the rows: dx[s] (+)= scaled gradient e^{rho} + PAIR_row(matrix gradient, Y).
  void pair_rows(const RowSide* sides, const Tile* dx, const bool* accumulate, int num_sides,
                 const Tile& y);
  /// Adjoint on the columns: dy (+)= d_scaled e^{Gamma-G} + sum over sides of PAIR_col(matrix
  /// gradient, X).
  void pair_cols(const RowSide* sides, int num_sides, const Tile& d_scaled, const Tile& dy,
                 bool accumulate);

  /// out = Y e^{Gamma - G} by rows (vector decay).
  void scale_to_end(const Tile& y, const Tile& out) const;

  /// S <- gamma S for a state [n, columns] whose rows decay.
  void decay_state(const Tile& s, int64_t columns) const;
  /// S <- S gamma for a state [rows, n] whose columns decay.
  void decay_columns(const Tile& s, int64_t rows) const;

 private:
  void set_vector(const Tile& g);
  void set_scalar(const float* g);
  void pair_vector(RowSide* sides, int num_sides, const Tile& y, const Tile& y_scaled_t);
  void pair_dense(RowSide* sides, int num_sides, const Tile& y, const Tile& y_scaled_t);
  /// X times the block-local part of e^{rho}, rows of block `block` only.
  void scale_block(const RowSide& side, int64_t block, const Tile& out) const;
  /// The masked weights E of a scalar or absent decay times `matrix`.
  void weigh(const RowSide& side, const Tile& out) const;

  const Kernels& kernels_;
  Decay kind_;
  int64_t n_;
  int64_t rows_ = 0;
  // vector
  Tile d_;       // e^g
  Tile prefix_;  // inclusive products from the block's start
  Tile suffix_;  // exclusive products to the block's end
  Tile block_;   // [kChunk/kBlock] product over a block, e^{sum g}
  Tile before_;  // [kChunk/kBlock + 1] product over all earlier blocks; the last row is gamma
  Tile work_;    // [kChunk, n]
  // scalar
  Tile weights_;               // E, inclusive mask; row i-1 serves the exclusive read of row i
  Tile weighed_;               // [kChunk, kChunk] matrices times E
  float* scalar_d_ = nullptr;  // e^g
  float* to_row_ = nullptr;    // e^G, with 1 in front: index i is e^{G-hat_i}, i + 1 is e^{G_i}
  float* to_end_ = nullptr;    // e^{Gamma - G}
  float* gamma_ = nullptr;     // [n] vector: row of before_; scalar: one number repeated
};

}  // namespace fla::cpu
