// SPDX-License-Identifier: MIT
// Modules: the parts of a model that are no recurrence (norms, convolution, products, losses). What
// a call is; ref, cpu and cuda compute it, ops/modules.h says what each one means.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "fla/tensor.h"

namespace fla {

/// Every activation is a matrix [rows, channels] with one row a token; columns are contiguous, rows
/// may be apart (stride[0] >= channels), so that a block of columns of a wider matrix is a tensor
/// too. Heads lie side by side.
enum class Module : uint8_t {
  kLinear,
  kEmbedding,
  kRmsNorm,
  kLayerNorm,
  kShortConv,
  kSwiGlu,
  kPointwise,
  kRotary,
  kAttention,
  kLinearCrossEntropy,
  kAdd,
  kHgrn2LowerBounds,
  kHgrn2Gate,
  kTokenShift,
  kRwkv7Key,
  kLerp,
  kRwkv7Output,
  kCount,
};
inline constexpr size_t kNumModules = static_cast<size_t>(Module::kCount);

/// s is the logistic function.
enum class Function : uint8_t {
  kIdentity,
  kSilu,        // x s(x)
  kSigmoid,     // scale s(x)
  kLogSigmoid,  // scale ln s(x)
  kTanh,
  kReluSquared,  // max(x, 0)^2
};

/// Sizes and switches of a call; no pointers. A field that a module does not read stays at its
/// default.
struct ModuleDesc {
  Module module = Module::kLinear;
  DType dtype = DType::kFp32;  // of activations and their gradients: fp64 on ref, fp32 on cpu, bf16
                               // or fp32 on cuda
  DType param_dtype = DType::kFp32;  // of parameters and their gradients
  int64_t rows = 0;                  // tokens
  int64_t width = 0;                 // channels of a row
  int64_t out = 0;                   // linear: outputs; embedding, linear_cross_entropy: vocabulary
  int64_t heads = 1;  // groups of channels, each of width / heads: norms, rotary, attention, rwkv7
  int64_t kv_heads = 0;   // attention: heads of k and v; 0 means heads
  int64_t taps = 0;       // short_conv: W; token_shift: how many mixtures
  int64_t batch = 1;      // dense: sequences of rows / batch tokens each
  int64_t sequences = 0;  // packed: cu_seqlens has sequences + 1 entries, batch is 1; 0 means dense
  int64_t window = 0;  // attention: keys that a query sees, itself included; 0 means all before it
  int64_t cache_length = 0;  // attention: tokens that the caches hold a sequence; 0: no cache
  Function function =
      Function::kIdentity;     // pointwise; short_conv after the sum; rms_norm on the gate
  float scale = 1.0F;          // pointwise; attention
  float eps = 0.0F;            // norms
  float base = 10000.0F;       // rotary
  bool shared_weight = false;  // rms_norm: one weight of width / heads channels for all heads
  bool gate_first = false;     // rms_norm: norm(x * f(gate)) * w instead of norm(x) * w * f(gate)
  uint32_t given = 0;          // bit i: the optional input i is passed
  uint32_t given_out = 0;      // bit i: the optional output i is passed

  bool has(size_t input) const { return (given >> input & 1U) != 0; }
  bool has_out(size_t output) const { return (given_out >> output & 1U) != 0; }
  int64_t num_sequences() const { return sequences == 0 ? batch : sequences; }
  int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  bool operator==(const ModuleDesc&) const = default;
};

// Which input and which output is which: inputs first, after "-> " the outputs. A "?" marks an
// optional one. Their names are those of the formulas.
// NOLINTBEGIN(readability-identifier-naming)
namespace slot {
struct Linear {  // y = x weight^T + bias + residual
  static constexpr size_t x = 0, weight = 1, bias = 2 /*?*/, residual = 3 /*?*/;
  static constexpr size_t y = 0;
};
struct Embedding {  // y[t] = table[ids[t]]; ids int32 [rows]
  static constexpr size_t ids = 0, table = 1;
  static constexpr size_t y = 0;
};
struct RmsNorm {
  static constexpr size_t x = 0, weight = 1, gate = 2 /*?*/;
  static constexpr size_t y = 0;
};
struct LayerNorm {  // each of the heads groups by itself; weight and bias [width]
  static constexpr size_t x = 0, weight = 1, bias = 2;
  static constexpr size_t y = 0;
};
struct ShortConv {  // weight [width, taps], the last tap meets the current token; states [N, width,
                    // taps - 1], oldest first
  static constexpr size_t x = 0, weight = 1, bias = 2 /*?*/, initial_state = 3 /*?*/,
                          cu_seqlens = 4 /*?*/;
  static constexpr size_t y = 0, final_state = 1 /*?*/;
};
struct SwiGlu {  // x [rows, 2 width] = gate | up, y = silu(gate) up
  static constexpr size_t x = 0;
  static constexpr size_t y = 0;
};
struct Pointwise {  // y = function(x)
  static constexpr size_t x = 0;
  static constexpr size_t y = 0;
};
struct Rotary {  // positions int32 [N]: the position of each sequence's first row; without it 0
  static constexpr size_t x = 0, cu_seqlens = 1 /*?*/, positions = 2 /*?*/;
  static constexpr size_t y = 0;
};
// q [rows, width]; k, v [rows, width / heads * kv_heads]; lse [rows, heads]. With caches [N,
// cache_length, channels of k], forward alone: the rows of k and v enter at positions [N] int32
// (tokens that the cache holds already), and a query sees the cache up to itself.
struct Attention {
  static constexpr size_t q = 0, k = 1, v = 2, cu_seqlens = 3 /*?*/, positions = 4 /*?*/,
                          k_cache = 5 /*?*/, v_cache = 6 /*?*/;
  static constexpr size_t y = 0, lse = 1;
};
struct LinearCrossEntropy {  // labels int32 [rows], below 0: no target; loss fp32 (fp64 on ref)
                             // [1], the mean over targets
  static constexpr size_t x = 0, weight = 1, labels = 2;
  static constexpr size_t loss = 0;
};
struct Add {  // y = a + b; y may be a or b
  static constexpr size_t a = 0, b = 1;
  static constexpr size_t y = 0;
};
struct Hgrn2LowerBounds {  // rows are layers: y[l] = sum of softmax(x)[1..l] over layers
  static constexpr size_t x = 0;
  static constexpr size_t y = 0;
};
struct Hgrn2Gate {  // y = ln(lower + (1 - lower) s(x)), lower [width] of the parameters' dtype
  static constexpr size_t x = 0, lower = 1;
  static constexpr size_t y = 0;
};
struct TokenShift {  // y [rows, taps width]: y_c = x + (before - x) mix_c; mix [taps, width];
                     // states [N, width]
  static constexpr size_t x = 0, mix = 1, initial_state = 2 /*?*/, cu_seqlens = 3 /*?*/;
  static constexpr size_t y = 0, final_state = 1 /*?*/;
};
struct Rwkv7Key {  // kappa = l2norm(k k_k) a head, eps under its root: a = -kappa, b = kappa rate,
                   // key = k (1 + (rate - 1) k_a)
  static constexpr size_t k = 0, rate = 1, k_k = 2, k_a = 3;
  static constexpr size_t key = 0, a = 1, b = 2;
};
struct Lerp {  // y = x + (first - x) s(logit)
  static constexpr size_t x = 0, first = 1, logit = 2;
  static constexpr size_t y = 0;
};
struct Rwkv7Output {  // y = (o + (sum over a head's channels of r k r_k) v) gate; r_k [width]
  static constexpr size_t o = 0, r = 1, k = 2, v = 3, gate = 4, r_k = 5;
  static constexpr size_t y = 0;
};
}  // namespace slot
// NOLINTEND(readability-identifier-naming)

inline constexpr size_t kMaxModuleInputs = 7;
inline constexpr size_t kMaxModuleOutputs = 3;

/// The tensors of a call. The backward pass reads what ops/modules.h says of `in` and `out`, and
/// all `d_out`; it writes the `d_in` that are not null, or adds to them where `accumulate` has
/// their bit.
struct ModuleTensors {
  std::array<TensorView, kMaxModuleInputs> in{};
  std::array<TensorView, kMaxModuleOutputs> out{};
  std::array<TensorView, kMaxModuleInputs> d_in{};
  std::array<TensorView, kMaxModuleOutputs> d_out{};
  uint32_t accumulate = 0;
};

/// A ready-to-run module: both passes. Immutable.
class ModulePlan {
 public:
  ModulePlan() = default;
  ModulePlan(const ModulePlan&) = delete;
  ModulePlan& operator=(const ModulePlan&) = delete;
  virtual ~ModulePlan() = default;

  virtual size_t workspace_bytes(Pass pass) const = 0;
  /// Computes; on a GPU it launches on `stream` and does no more. Deterministic. Trusts its
  /// tensors: ops/modules.h checks.
  virtual Status run(Pass pass, const ModuleTensors& tensors, Workspace workspace,
                     Stream stream) const = 0;
};

/// AdamW over flat arrays (Loshchilov and Hutter 2019). p -= lr wd p; m = b1 m + (1-b1) g; v = b2 v
/// + (1-b2) g^2; p -= lr / (1-b1^t) m / (sqrt(v / (1-b2^t)) + eps), in fp32 (fp64 on ref), stored
/// rounded to nearest even.
struct AdamWStep {
  int64_t count = 0;    // parameters
  TensorView param;     // bf16, fp32 (fp64 on ref)
  TensorView grad;      // param's dtype
  TensorView m, v;      // param's dtype, or fp32 with master
  TensorView master;    // null, or fp32: param is its rounded copy
  TensorView schedule;  // fp32 (fp64 on ref) [3]: lr, 1 - b1^t, 1 - b2^t
  TensorView
      norm;  // null, or what grad_norm wrote: gradients are scaled by min(1, max_norm / norm)
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, weight_decay = 0.1F, max_norm = 0.0F;
};

}  // namespace fla
