// SPDX-License-Identifier: MIT
// What the recurrent kernels are told: plain data, passed by value.
#pragma once

#include <cstdint>

#include "core/canonical.h"
#include "cuda/device/tensors.h"

namespace fla::cuda::recurrent {

/// Constant decays that one launch carries; a call with more value heads is cut by heads.
inline constexpr int kMaxTableHeads = 256;

struct Params {
  Rows q, k, v, o;
  Rows e;           // [K] comba's p, gdn2's erase gate, or a of DPLR
  Rows b;           // [K] DPLR
  Rows gate;        // log decay or logits: [K] for kVector, [V] for kValueVector, else one number
  Rows write_gate;  // [V] gdn2's w
  Rows beta;
  Rows g_atk, beta_atk;
  Parameter u;  // rwkv6 [H,K]
  Parameter a_log, dt_bias, d_skip, g_gamma, log_atk_scale;
  State initial, final;
  KeyState initial_key;
  // Scratch [N, heads, K] for the last key state: every slab and value head of a sequence reads the
  // initial one, so none may write it in place.
  float* final_key = nullptr;
  Sequences sequences;  // T steps < 2^31

  int32_t keys = 0;    // K
  int32_t values = 0;  // V
  int32_t steps = 1;   // rows of k, v, beta a token
  int32_t heads = 0;   // value heads of this launch
  int32_t first_head = 0;
  int32_t group = 1;  // value heads a key head
  int32_t slabs = 1;  // of the value columns

  Decay decay = Decay::kNone;
  GateInput gate_input = GateInput::kLog;
  bool l2norm = false;
  bool has_beta = false;
  bool beta_logits = false;
  bool erase_undecayed = false;
  bool erase_gated = false;  // e holds the gate of the erase key, not the key
  bool key_from_gate = false;
  bool unit_qk = false;
  bool precondition = false;
  bool normalize = false;
  bool dt_gate = false;
  bool softmax_q = false;               // gsa, second pass: q holds scores
  bool key_state_per_key_head = false;  // A, not z
  int32_t key_state_heads = 0;
  float scale = 1.0F;
  float beta_factor = 1.0F;
  float lower_bound = 0.0F;
  bool has_head_table = false;
  float head_table[kMaxTableHeads] = {};  // log decay of value head first_head + i
};

/// Copies the scratch of Params::final_key [num_sequences, heads, keys] to where it belongs.
struct KeyStateCopy {
  const float* from = nullptr;
  KeyState to;
  Indices state_indices;
  int64_t state_rows = 0;
  int64_t num_sequences = 0;
  int32_t heads = 0;
  int32_t keys = 0;
};

}  // namespace fla::cuda::recurrent
