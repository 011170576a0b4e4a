// SPDX-License-Identifier: MIT
// Which memory two views share.
#include "ops/overlap.h"

#include <cstddef>
#include <cstdint>

namespace fla::ops {
namespace {

struct Interval {
  uint64_t begin;
  uint64_t size;
};

/// Bytes from the first to past the last element, dropping dimensions whose byte stride is a
/// multiple of `modulus` (0: none is dropped).
Interval extent(const TensorView& view, uint64_t modulus) {
  const uint64_t element = dtype_bytes(view.dtype);
  uint64_t size = element;
  for (size_t d = 0; d < static_cast<size_t>(view.rank); ++d) {
    const uint64_t stride = static_cast<uint64_t>(view.stride[d]) * element;
    if (modulus != 0 && stride % modulus == 0)
      continue;
    size += static_cast<uint64_t>(view.shape[d] - 1) * stride;
  }
  return {reinterpret_cast<uintptr_t>(view.data), size};
}

/// Both views repeat with period `modulus`; true when one period shows them apart.
bool disjoint_modulo(const TensorView& a, const TensorView& b, uint64_t modulus) {
  const Interval x = extent(a, modulus);
  const Interval y = extent(b, modulus);
  if (x.size > modulus || y.size > modulus)
    return false;
  const uint64_t ahead = (y.begin % modulus + modulus - x.begin % modulus) % modulus;
  return ahead >= x.size && ahead + y.size <= modulus;
}

bool some_stride_separates(const TensorView& strided, const TensorView& a, const TensorView& b) {
  for (size_t d = 0; d < static_cast<size_t>(strided.rank); ++d) {
    const uint64_t modulus = static_cast<uint64_t>(strided.stride[d]) * dtype_bytes(strided.dtype);
    if (strided.shape[d] > 1 && modulus > 0 && disjoint_modulo(a, b, modulus))
      return true;
  }
  return false;
}

}  // namespace

bool may_overlap(const TensorView& a, const TensorView& b) {
  if (a.num_elements() == 0 || b.num_elements() == 0)
    return false;
  const Interval x = extent(a, 0);
  const Interval y = extent(b, 0);
  if (x.begin + x.size <= y.begin || y.begin + y.size <= x.begin)
    return false;
  return !some_stride_separates(a, a, b) && !some_stride_separates(b, a, b);
}

bool is_injective(const TensorView& view) {
  // From the smallest stride up, each dimension must step over all that the smaller ones reach.
  int64_t span = 1;
  unsigned done = 0;
  for (int step = 0; step < view.rank; ++step) {
    int next = -1;
    for (int d = 0; d < view.rank; ++d) {
      const bool is_open = (done >> d & 1U) == 0;
      if (is_open && (next < 0 || view.stride[static_cast<size_t>(d)] <
                                      view.stride[static_cast<size_t>(next)])) {
        next = d;
      }
    }
    done |= 1U << next;
    const auto d = static_cast<size_t>(next);
    if (view.shape[d] <= 1)
      continue;
    if (view.stride[d] < span)
      return false;
    span += view.stride[d] * (view.shape[d] - 1);
  }
  return true;
}

}  // namespace fla::ops
