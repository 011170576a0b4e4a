// SPDX-License-Identifier: MIT
// Canonical: an operator said as one of the three canonical recurrences (math.md 3.1) plus the pre-
// and post-processing of math.md 5. ops fills it, cpu and cuda compute it, ref never sees it.
#pragma once

#include <cstdint>
#include <vector>

#include "fla/op.h"

namespace fla {

enum class Update : uint8_t {
  kAdd,    // S = D S + k v^T
  kDelta,  // S = D S + k (v - R^T e)^T
  kDplr,   // S = (D + b a^T) S + k v^T
};

enum class Decay : uint8_t {
  kNone,
  kHead,    // one constant a value head: head_log_decay, or the slot g_gamma when that is empty
  kScalar,  // g [B,T,HV]
  kVector,  // g [B,T,HV,K], acts on state rows
  kValueVector,  // g [B,T,HV,V], acts on state columns (math.md 3.10)
};

struct Canonical {
  Update update = Update::kAdd;
  Decay decay = Decay::kNone;
  float scale = 1.0F;

  // Where the write and erase vectors come from (math.md 5.2 to 5.4). beta folds into v and into
  // the erase key e.
  bool l2norm = false;       // q, k and p are normalised
  bool has_beta = false;     // v <- beta v, e <- beta (k or p)
  bool beta_logits = false;  // beta = beta_factor * sigmoid(logit)
  float beta_factor = 1.0F;
  bool erase_key_is_p = false;   // comba with p
  bool erase_undecayed = false;  // comba: the erase reads S_{t-1}, not D S_{t-1}
  bool channel_gates = false;    // gdn2: e = b * k, v <- w * v
  bool key_from_gate = false;    // hgrn2: k = 1 - exp(g)
  bool bonus = false;            // rwkv6: o reads S_{t-1} + (u * k) v^T
  bool unit_qk = false;          // hgrn: K = 1, q = k = 1, tensors are [B,T,HV*V]
  bool precondition = false;     // precond_*: the write key is k * m(A) (math.md 5.8)
  bool normalize =
      false;  // linear_attn: o / (scale q.z + 1e-10), z carried in initial_state2/final_state2
  bool dt_gate =
      false;  // ssd: dt = softplus(g + dt_bias), g <- -exp(A_log) dt, v <- dt v, o <- o + D v
  bool slot_softmax =
      false;  // gsa: kValueVector pass over (K, M), softmax, then kVector pass over (M, V)
  int64_t inner_steps = 1;  // gated_delta_product: k, v, beta have inner_steps rows a token

  GateInput gate_input = GateInput::kLog;
  float lower_bound = 0.0F;
  std::vector<float> head_log_decay;  // [HV] for kHead, empty: read g_gamma
};

}  // namespace fla
