// SPDX-License-Identifier: MIT
// Compile-time sizes of a chunk kernel, and where prep's tiles and the scans' states lie in
// scratch.
#pragma once

#include <cstdint>

#include "core/canonical.h"

namespace fla::cuda::chunk {

inline constexpr int kBlock = 16;  // rows that share an anchor of exponentials
inline constexpr int kSlab = 64;   // value columns of a scan's CTA

/// Rows of a chunk: as many as the tiles of the gradient kernel and of the scans leave room for.
constexpr int chunk_rows(Update update, int keys, bool split) {
  const bool dplr = update == Update::kDplr;
  if (keys > 128)
    return split || dplr ? 16 : 32;
  if (split && dplr && keys > 64)
    return 16;
  return split || dplr ? 32 : 64;
}

/// Bytes from the start of a block that prep hands over, [rows, K] and [rows, rows] row-major,
/// planes one after the other (math.md 3.3 to 3.5; a is -beta e for DELTA):
///   q      scale * Q e^G           k  K e^(Gamma - G)    b  B e^(Gamma - G)
///   qk, qb scale * tri PAIR(Q, .)  w  T A e^G            gamma  e^Gamma [K], fp32
///   t      T                       tv T diag(beta), for DPLR T stri PAIR(A, K)
/// DELTA has b = k: what it writes goes through b and qb.
struct TileLayout {
  int64_t q = 0, k = 0, b = 0, w = 0, qk = 0, qb = 0, t = 0, tv = 0, gamma = 0, bytes = 0;
};

constexpr TileLayout tile_layout(Update update, int keys, bool split) {
  const int64_t rows = chunk_rows(update, keys, split);
  const int64_t wide = rows * keys * 2 * (split ? 2 : 1);
  const int64_t square = rows * rows * 2 * (split ? 2 : 1);
  TileLayout at;
  int64_t next = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t here = next;
    next += bytes;
    return here;
  };
  at.q = take(wide);
  if (update != Update::kDelta) {
    at.k = take(wide);
    at.qk = take(square);
  }
  if (update != Update::kAdd) {
    at.b = take(wide);
    at.w = take(wide);
    at.qb = take(square);
    at.tv = take(square);
    at.t = take(square);
  }
  at.gamma = take(int64_t{4} * keys);
  at.bytes = next;
  return at;
}

/// Bytes of what the scans leave for the gradients of a chunk and head, transposed, [values, K] and
/// [values, rows]: the states S0 entering it, the gradient dS1 of those leaving it, what the solve
/// gave (Y of DELTA, Z of DPLR) and its gradient.
struct StateLayout {
  int64_t s0 = 0, ds1 = 0, y = 0, dy = 0, bytes = 0;
};

constexpr StateLayout state_layout(Update update, int keys, bool split, int64_t slabs) {
  const int64_t columns = slabs * kSlab;
  const int64_t planes = split ? 2 : 1;
  const int64_t state = columns * keys * 2 * planes;
  const int64_t rows =
      update == Update::kAdd ? 0 : columns * chunk_rows(update, keys, split) * 2 * planes;
  return {0, state, 2 * state, 2 * state + rows, 2 * state + 2 * rows};
}

template <Update kUpdateOf, bool kVectorOf, int kKeysOf, int kPlanesOf>
struct Shape {
  static constexpr Update kUpdate = kUpdateOf;
  static constexpr bool kVector = kVectorOf;  // decay per key channel
  static constexpr int kKeys = kKeysOf;
  static constexpr int kPlanes = kPlanesOf;
  static constexpr int kRows = chunk_rows(kUpdate, kKeys, kPlanes == 2);
  static constexpr int kBlocks = kRows / kBlock;
  static constexpr bool kSolved =
      kUpdate != Update::kAdd;  // a triangular solve gives what is written
  static constexpr bool kPlain = kUpdate != Update::kDelta;  // v is written as it is
  static constexpr bool kDplr = kUpdate == Update::kDplr;
  static constexpr TileLayout kTiles = tile_layout(kUpdate, kKeys, kPlanes == 2);
};

}  // namespace fla::cuda::chunk
