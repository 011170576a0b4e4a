// SPDX-License-Identifier: MIT
// Scratch: what a fold keeps in the workspace. All of it is fp32; null where a call has no use for
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/canonical.h"
#include "cuda/device/tensors.h"
#include "fla/op.h"

namespace fla::cuda::fold {

/// `rows` are T steps; V+ is the row of values with a column of ones, as value_stride() has it.
struct Scratch {
  // What the engine reads and writes in place of the caller's tensors.
  float* gate = nullptr;       // log decay [B,T,HV] or [B,T,HV,K]
  float* beta = nullptr;       // [B,T,HV]
  float* erase_key = nullptr;  // [B,T,HV,K]
  float* write_key = nullptr;  // [B,T,H,K]
  float* value = nullptr;      // [B,T,HV,V] or [B,T,HV,V+]
  float* output = nullptr;     // [B,T,HV,V+]
  float* initial = nullptr;    // [N,HV,K,V+]
  float* final = nullptr;
  // The preconditioner's.
  float* key_factor = nullptr;  // [B,T,H]
  float* decayed = nullptr;     // [B,T,H,K]
  float* carry = nullptr;       // [B,T,H,K]
  float* segments[4] = {};      // arrays of Segments
  // What the engine writes and a chain rule takes further.
  float* d_q = nullptr;      // [B,T,HV,K]
  float* d_k = nullptr;      // [B,rows,HV,K]
  float* d_a = nullptr;      // [B,rows,HV,K]
  float* d_b = nullptr;      // [B,rows,HV,K]
  float* d_value = nullptr;  // as value
  float* d_gate = nullptr;
  float* d_beta = nullptr;
  float* d_skip = nullptr;   // [B,T,HV]
  float* d_scale = nullptr;  // [B,T,H]
  float* d_u = nullptr;      // [chunks,HV,K]
  float* d_initial = nullptr;
  float* d_final = nullptr;
  float* parts = nullptr;  // sums over parts of the tokens, of one parameter after the other
};

/// Counts floats, or hands them out from `base`, each piece 256-byte aligned.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}
  float* take(int64_t floats);
  size_t used() const { return used_; }

 private:
  char* base_;
  size_t used_ = 0;
};

/// The scratch of a call, cut from `arena`. `num_chunks` is how many parts the gradient of u has.
Scratch make_scratch(const Canonical& canonical, const OpDesc& desc, int64_t num_chunks,
                     Arena* arena);

/// Scratch [B, T, heads, n] as rows with value heads.
Rows scratch_rows(float* data, int64_t T, int64_t heads, int64_t n);

/// Whether the gate tensor holds logits.
bool gate_is_raw(const Canonical& canonical);
/// Floats from head to head of values in scratch.
int64_t value_stride(const Canonical& canonical, const OpDesc& desc);
/// Decay numbers a token and value head.
int64_t gate_channels(const Canonical& canonical, const OpDesc& desc);

}  // namespace fla::cuda::fold
