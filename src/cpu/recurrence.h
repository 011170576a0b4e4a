// SPDX-License-Identifier: MIT
// The canonical recurrences on one chunk of one head (math.md 3.3 to 3.5, 3.10): forward, adjoint,
// and token by token.
#pragma once

#include <cstdint>

#include "core/canonical.h"
#include "cpu/decay.h"
#include "cpu/kernels.h"
#include "cpu/tile.h"

namespace fla::cpu {

/// The slots of a chunk as fp32 tiles of `rows` rows (a multiple of kBlock; padded rows hold 0),
/// and their gradients. q, k, v, e are final: normalised, beta folded in. Tiles that a recurrence
/// has no use for are null. Padded columns are finite.
struct Chunk {
  int64_t rows = 0;
  int64_t tokens = 0;            // rows that exist
  Tile q, k, v;                  // [rows, K], [rows, K], [rows, V]
  Tile e;                        // DELTA: erase key; DPLR: a [rows, K]
  Tile b;                        // DPLR: b [rows, K]
  Tile s;                        // gsa: memory slots [rows, M]
  Tile g;                        // vector decay [rows, K] (or [rows, V] on the value side), log
  const float* g_row = nullptr;  // scalar decay [rows], log; null: no decay
  const float* u = nullptr;      // rwkv6 bonus [K]
  Tile o;                        // out: [rows, V], not scaled
  Tile d_o;                      // in: scale * dO [2 kChunk, V]; the second half is scratch
  Tile dq, dk, dv, de, db, ds;   // out
  Tile dg;                       // out: vector decay gradient
  float* dg_row = nullptr;       // out: scalar decay gradient [rows]
  float* du = nullptr;           // added to: bonus gradient [K]
};

class Recurrence {
 public:
  Recurrence() = default;
  Recurrence(const Recurrence&) = delete;
  Recurrence& operator=(const Recurrence&) = delete;
  virtual ~Recurrence() = default;

  /// o and S <- state after the chunk.
  virtual void forward(const Chunk& chunk, const Tile& s) = 0;
  /// S alone: the sweep before a backward pass.
  virtual void advance(const Chunk& chunk, const Tile& s) { forward(chunk, s); }
  /// All gradients, given the states entering (s0) and leaving (s1) the chunk; ds <- gradient of
  /// s0.
  virtual void backward(const Chunk& chunk, const Tile& s0, const Tile& s1, const Tile& ds) = 0;
};

/// S [K,V] with decayed rows; `kind` is kNone, kScalar or kVector.
Recurrence* make_add(const Kernels& kernels, Decay kind, int64_t k, int64_t v, Arena* arena,
                     bool backward);
Recurrence* make_delta(const Kernels& kernels, Decay kind, bool erase_undecayed, int64_t k,
                       int64_t v, Arena* arena, bool backward);
Recurrence* make_dplr(const Kernels& kernels, Decay kind, int64_t k, int64_t v, Arena* arena,
                      bool backward);
/// ADD with a vector decay on the value side (math.md 3.10).
Recurrence* make_value_decay_add(const Kernels& kernels, int64_t k, int64_t v, Arena* arena,
                                 bool backward);

/// gsa (math.md 6.8): `keys` over (K, M) with value-side decay, softmax over the slots, `values`
/// over (M, V). The state is Sk [K, M] above Sv [M, V], which starts at row slot_state_row(K).
Recurrence* make_slot_attention(const Kernels& kernels, Recurrence* keys, Recurrence* values,
                                float scale, int64_t k, int64_t m, Arena* arena, bool backward);
constexpr int64_t slot_state_row(int64_t k) {
  return round_up(k, kPad);
}

/// Token by token (math.md 3.1): the same function as the chunked forward(), for short sequences
/// and decode.
class TokenWalk final : public Recurrence {
 public:
  TokenWalk(const Kernels& kernels, const Canonical& canonical, Decay kind, int64_t k, int64_t v,
            Arena* arena);
  void forward(const Chunk& chunk, const Tile& s) override { walk(chunk, s, s); }
  /// There is none: the backward pass is the chunked one.
  void backward(const Chunk&, const Tile&, const Tile&, const Tile&) override {}
  /// Reads the state from s_in for the first token and keeps it in s_out.
  void walk(const Chunk& chunk, const Tile& s_in, const Tile& s_out);

 private:
  const Kernels& kernels_;
  Update update_;
  Decay kind_;
  bool undecayed_;
  int64_t k_;
  int64_t v_;
  Tile decays_;  // [kChunk, K or V]
};

// Shared by the chunked recurrences.

/// out (+)= tri(P) Y and tri(P)^T X, by blocks of rows.
void add_lower(const Kernels& kernels, int64_t rows, const Tile& p, int64_t n, const Tile& y,
               const Tile& out);
void add_lower_transposed(const Kernels& kernels, int64_t rows, const Tile& p, int64_t n,
                          const Tile& x, const Tile& out);
/// out = tri or stri of X Y^T, given Y^T [n, rows].
void lower_product(const Kernels& kernels, int64_t rows, int64_t n, const Tile& x, const Tile& y_t,
                   bool strict, const Tile& out);
/// Y <- (I + sign M)^-1 Y, M strictly lower, or with its transpose.
void solve(const Kernels& kernels, int64_t rows, const Tile& m, float sign, bool transposed,
           int64_t n, const Tile& y);

/// Gate gradient of a chunk from value-times-gradient products (math.md 3.6).
class GateGradient {
 public:
  GateGradient(const Kernels& kernels, Decay kind, int64_t n)
      : kernels_(kernels), kind_(kind), n_(n) {}
  void start(const Chunk& chunk) const;
  /// dG_i += sign x_i dx_i, or dG-hat_i with `exclusive`.
  void add(const Chunk& chunk, float sign, const Tile& x, const Tile& dx, bool exclusive) const;
  /// Adds rowsum(S1 dS1) to the last row and takes the reverse prefix sum.
  void finish(const Chunk& chunk, const Tile& s1, const Tile& ds1, int64_t columns) const;

 private:
  const Kernels& kernels_;
  Decay kind_;
  int64_t n_;
};

}  // namespace fla::cpu
