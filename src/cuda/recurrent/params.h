// SPDX-License-Identifier: MIT
// What the recurrent kernels are told: plain data, passed by value. Null pointers are tensors that
// are not given.
#pragma once

#include <cstdint>

#include "core/canonical.h"

namespace fla::cuda::recurrent {

/// Rows of a [B, T, heads, n] tensor, last stride 1; n = 1 for [B, T, heads]. Strides in bytes.
struct Rows {
  char* data = nullptr;
  int64_t batch = 0;
  int64_t token = 0;
  int64_t head = 0;
  int32_t dtype = 0;
  int32_t element = 0;    // bytes
  bool key_side = false;  // has H heads, not HV
};

/// A parameter: [heads], [heads * n] or [heads, n]. Strides in bytes.
struct Parameter {
  const char* data = nullptr;
  int64_t first = 0;   // stride of the first axis
  int64_t second = 0;  // of the second, if any
  int32_t dtype = 0;
  int32_t element = 0;  // bytes
};

/// How a thread reaches its part of a state.
enum class StateAccess : int32_t {
  kElements,  // one float at a time
  kColumns,   // value columns are contiguous and aligned to the columns of a lane
  kKeys,      // keys are contiguous and aligned to four floats (state_v_first)
};

/// fp32 states: element (row, head, key, value) with strides.
struct State {
  float* data = nullptr;
  int64_t row = 0;
  int64_t head = 0;
  int64_t key = 0;
  int64_t value = 0;
  StateAccess access = StateAccess::kElements;
};

/// The state beside the matrix: the normaliser z [rows,HV,K] or the preconditioner A [rows,H,K].
struct KeyState {
  float* data = nullptr;
  int64_t row = 0;
  int64_t head = 0;
  int64_t key = 0;
};

/// [n] indices of either width.
struct Indices {
  const void* data = nullptr;
  bool wide = false;
};

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
  Indices cu_seqlens, state_indices;
  const uint8_t* state_mask = nullptr;  // [N], stride state_mask_stride
  int64_t state_mask_stride = 0;

  int32_t T = 0;           // tokens of a batch row; T steps < 2^31
  int64_t state_rows = 0;  // of initial and final
  int32_t keys = 0;        // K
  int32_t values = 0;      // V
  int32_t steps = 1;       // rows of k, v, beta a token
  int32_t heads = 0;       // value heads of this launch
  int32_t first_head = 0;
  int32_t group = 1;  // value heads a key head
  int32_t slabs = 1;  // of the value columns

  Decay decay = Decay::kNone;
  GateInput gate_input = GateInput::kLog;
  bool packed = false;
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
