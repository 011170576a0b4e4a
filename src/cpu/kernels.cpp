// SPDX-License-Identifier: MIT
// The kernel tables: every primitive compiled once per Highway target.
#include "cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/matmul-inl.h"
#include "cpu/pair-inl.h"
#include "cpu/recurrent-inl.h"
#include "cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu {
namespace HWY_NAMESPACE {

const Kernels kKernels = {
    .matmul = &matmul,
    .transpose = &transpose,
    .load_rows = &load_rows,
    .store_rows = &store_rows,
    .mul = &mul,
    .mul_add = &mul_add,
    .mul_sub = &mul_sub,
    .scale_rows = &scale_rows,
    .scale_rows_add = &scale_rows_add,
    .add_scaled = &add_scaled,
    .dot_rows = &dot_rows,
    .exp_rows = &exp_rows,
    .log_rows = &log_rows,
    .one_minus_exp = &one_minus_exp,
    .softplus = &softplus,
    .sigmoid = &sigmoid,
    .block_products = &block_products,
    .block_sums = &block_sums,
    .reverse_cumsum = &reverse_cumsum,
    .pair_diagonal = &pair_diagonal,
    .pair_diagonal_rows = &pair_diagonal_rows,
    .pair_diagonal_cols = &pair_diagonal_cols,
    .solve_block = &solve_block,
    .recurrent_token = &recurrent_token,
};

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fla::cpu {
namespace {

struct Target {
  int64_t bit;
  std::string_view name;
  const Kernels* kernels;
};

// Best first. The last one is what the compiler's baseline runs on, so it is always supported.
constexpr Target kTargets[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, "avx3", &N_AVX3::kKernels},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, "avx2", &N_AVX2::kKernels},
#endif
#if HWY_TARGETS & HWY_SCALAR
    {HWY_SCALAR, "scalar", &N_SCALAR::kKernels},
#endif
};

}  // namespace

const Kernels* find_kernels(std::string_view target) {
  const int64_t supported = hwy::SupportedTargets();
  for (const Target& entry : kTargets) {
    if ((supported & entry.bit) != 0 && (target.empty() || target == entry.name)) {
      return entry.kernels;
    }
  }
  return nullptr;
}

std::vector<std::string> targets() {
  std::vector<std::string> names;
  const int64_t supported = hwy::SupportedTargets();
  for (const Target& entry : kTargets) {
    if ((supported & entry.bit) != 0)
      names.emplace_back(entry.name);
  }
  return names;
}

}  // namespace fla::cpu
#endif  // HWY_ONCE
