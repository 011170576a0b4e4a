// SPDX-License-Identifier: MIT
// What the chunk kernels are told: the slots of a canonical recurrence (math.md 3.1) and their
// gradients, as plain data passed by value. beta folds in here: ADD takes k <- beta k, DELTA takes
// v <- beta v and e <- beta e.
#pragma once

#include <cstdint>

#include "core/canonical.h"
#include "cuda/chunk/shape.h"
#include "cuda/device/tensors.h"

namespace fla::cuda::chunk {

/// Constant decays that one launch carries; a call with more value heads is cut by heads.
inline constexpr int kMaxTableHeads = 256;

/// The slots. Rows of a sequence are T * steps; every tensor is read through its own dtype and
/// strides. Null slots are not given.
struct Slots {
  Rows q, k, v, o;
  Rows g;             // log decay <= 0: a number a row, or [K] for kVector
  Rows beta;          // a number a row
  Rows a;             // DELTA: erase key, null: k. DPLR: a
  Rows b;             // DPLR: b
  Parameter u;        // [H, K]: o reads S_{t-1} + (u * k) v^T instead of S_t (rwkv6)
  Parameter d_skip;   // [HV]: o += d_skip v
  Parameter g_gamma;  // [HV]: log decay of kHead where there is no table
  State initial, final;
};

/// Gradients, in a backward pass. Those of key-side slots are written per value head, [B, rows, HV,
/// K]; a null one is not written. d_o comes in.
struct Gradients {
  Rows d_o;
  Rows q, k, v, g, beta, a, b;
  Rows skip;           // a number a row: do . v, whose sum over rows is the gradient of d_skip
  float* u = nullptr;  // [chunks, HV, K]: parts of the gradient of u
  State initial;       // out
  State final;         // in
};

struct Params {
  Slots slots;
  Gradients grads;
  Sequences sequences;  // T * steps < 2^31

  // Packed calls: first chunk of each sequence [N + 1], and the sequences, longest first [N].
  const int32_t* first_chunk = nullptr;
  const int32_t* order = nullptr;
  int64_t num_sequences = 0;
  int32_t num_chunks = 0;           // that the scratch has room for
  int32_t chunks_per_sequence = 0;  // dense calls

  char* tiles = nullptr;   // what prep hands to the scans, a block a chunk and head
  char* states = nullptr;  // what the scans hand to the gradients, a block a chunk and head
  StateLayout layout;      // of such a block
  bool record = false;     // the forward scan fills `states`

  int32_t keys = 0;
  int32_t values = 0;
  int32_t steps = 1;
  int32_t heads = 0;  // value heads of this launch
  int32_t first_head = 0;
  int32_t all_heads = 0;
  int32_t group = 1;  // value heads a key head
  int32_t slabs = 1;  // of the value columns

  Decay decay = Decay::kNone;
  bool norm_q = false;  // rows of the slot are divided by their norm (math.md 5.2)
  bool norm_k = false;
  bool norm_a = false;
  bool erase_undecayed = false;  // the erase reads S_{t-1}
  bool key_from_gate = false;    // k = 1 - exp(g)
  float scale = 1.0F;
  bool has_head_table = false;
  float head_table[kMaxTableHeads] = {};  // log decay of value head first_head + i
};

}  // namespace fla::cuda::chunk
