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

/// Bytes from the start of a block that prep hands over, [rows, K] and [rows, rows] row-major, each
/// row kRowPadding longer, planes one after the other (math.md 3.3 to 3.5; a is -beta e for DELTA):
///   w      T A e^G                 qk, qb  scale * tri PAIR(Q, .)
///   tv     T diag(beta), for DPLR T stri PAIR(A, K)      gamma  e^Gamma [K], fp32
///   q      scale * Q e^G           k  K e^(Gamma - G)    b  B e^(Gamma - G)
///   t      T
/// A scalar gate leaves q, k and b as they came: `read` and `write` are what their rows are still
/// to be multiplied by, fp32, and gamma is one number.
/// DELTA has b = k: what it writes goes through b and qb. What the scans read comes first, laid out
/// as in their shared memory: one copy takes it there. Of squares the lower blocks are written.
struct TileLayout {
  int64_t w = 0, qk = 0, qb = 0, tv = 0, read = 0, write = 0, gamma = 0;
  int64_t q = 0, k = 0, b = 0, scan_bytes = 0;
  int64_t t = 0, bytes = 0;
};

inline constexpr int kRowPadding = 8;  // elements, against bank conflicts

constexpr TileLayout tile_layout(Update update, bool vector_gate, int keys, bool split) {
  const int64_t rows = chunk_rows(update, keys, split);
  const int64_t wide = rows * (keys + kRowPadding) * 2 * (split ? 2 : 1);
  const int64_t square = rows * (rows + kRowPadding) * 2 * (split ? 2 : 1);
  const bool plain = update != Update::kDelta;
  const bool solved = update != Update::kAdd;
  TileLayout at;
  int64_t next = 0;
  const auto take = [&](bool given, int64_t bytes) {
    const int64_t here = next;
    next += given ? bytes : 0;
    return here;
  };
  at.w = take(solved, wide);
  at.qk = take(plain, square);
  at.qb = take(solved, square);
  at.tv = take(solved, square);
  at.read = take(!vector_gate, int64_t{4} * rows);
  at.write = take(!vector_gate, int64_t{4} * rows);
  at.gamma = take(true, int64_t{4} * (vector_gate ? keys : 4));
  at.q = take(true, wide);
  at.k = take(plain, wide);
  at.b = take(solved, wide);
  at.scan_bytes = next;
  at.t = take(solved, square);
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
  static constexpr TileLayout kTiles = tile_layout(kUpdate, kVector, kKeys, kPlanes == 2);
};

}  // namespace fla::cuda::chunk
