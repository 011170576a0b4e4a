// SPDX-License-Identifier: MIT
// Token by token through a chunk: the recurrent form of all three recurrences.
#include <algorithm>
#include <cmath>

#include "cpu/recurrence.h"

namespace fla::cpu {
namespace {

// State columns per slab: K rows of it stay in the first-level cache while the tokens of a chunk
// pass.
constexpr int64_t kSlab = 64;

}  // namespace

TokenWalk::TokenWalk(const Kernels& kernels, const Canonical& canonical, Decay kind, int64_t k,
                     int64_t v, Arena* arena)
    : kernels_(kernels),
      update_(canonical.update),
      kind_(kind),
      undecayed_(canonical.erase_undecayed || canonical.update == Update::kDplr),
      k_(k),
      v_(v),
      decays_(arena->tile(kChunk, kind == Decay::kValueVector ? v : k)) {}

void TokenWalk::walk(const Chunk& c, const Tile& s_in, const Tile& s_out) {
  if (kind_ == Decay::kVector || kind_ == Decay::kValueVector) {
    const int64_t n = kind_ == Decay::kVector ? k_ : v_;
    kernels_.exp_rows(c.tokens, n, c.g.data, c.g.ld, decays_.data, decays_.ld);
  } else if (kind_ == Decay::kScalar) {
    for (int64_t i = 0; i < c.tokens; ++i)
      std::fill_n(decays_.row(i), k_, std::exp(c.g_row[i]));
  }
  for (int64_t slab = 0; slab < v_; slab += kSlab) {
    const int64_t width = std::min(kSlab, v_ - slab);
    const float* source = s_in.data + slab;
    int64_t ld_source = s_in.ld;
    for (int64_t i = 0; i < c.tokens; ++i) {
      Kernels::Token token{};
      token.q = c.q.row(i);
      token.k = c.k.row(i);
      token.v = c.v.row(i) + slab;
      if (update_ != Update::kAdd)
        token.e = c.e.row(i);
      if (update_ == Update::kDplr)
        token.b = c.b.row(i);
      if (kind_ == Decay::kVector || kind_ == Decay::kScalar)
        token.d = decays_.row(i);
      if (kind_ == Decay::kValueVector)
        token.d_col = decays_.row(i) + slab;
      token.u = c.u;
      token.undecayed = undecayed_;
      token.scale = 1.0F;
      token.o = c.o.row(i) + slab;
      kernels_.recurrent_token(k_, width, token, source, ld_source, s_out.data + slab, s_out.ld);
      source = s_out.data + slab;
      ld_source = s_out.ld;
    }
  }
}

}  // namespace fla::cpu
