// SPDX-License-Identifier: MIT
// The operators of the reference: plain functions on gathered arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "fla/op.h"
#include "ref/linalg.h"
#include "ref/problem.h"

namespace fla::ref {

struct Operator {
  std::string_view name;  // registry name

  /// On entry the inputs are there, o is zero and the final states equal the initial ones (zero
  /// when not given); the function advances the states in place and writes o.
  void (*forward)(const Problem&, Arrays<double>&) = nullptr;
  /// The same function on complex numbers, for derivatives by complex step.
  void (*forward_complex)(const Problem&, Arrays<Complex>&) = nullptr;
  /// On entry grad[o] is there, grad of every input that was given is zero, and the gradients of
  /// the initial states hold those of the final states; the function takes them back in place and
  /// adds to the others.
  void (*backward)(const Problem&, const Arrays<double>& in, Arrays<double>& grad) = nullptr;

  /// Elements of a sequence's first and second state; 0 when there is none.
  int64_t (*state_elems)(const OpDesc&) = nullptr;
  int64_t (*state2_elems)(const OpDesc&) = nullptr;
  bool unit_scale = false;  // the default scale is 1 instead of K^-1/2
};

/// Most operators carry one K x V matrix a value head.
inline int64_t matrix_state(const OpDesc& desc) {
  return desc.value_heads() * desc.K * desc.V;
}
inline int64_t no_state(const OpDesc&) {
  return 0;
}

extern const Operator kLinearAttn;
extern const Operator kRetention;
extern const Operator kLightningAttn;
extern const Operator kSimpleGla;
extern const Operator kSsd;
extern const Operator kGla;
extern const Operator kRwkv6;
extern const Operator kHgrn;
extern const Operator kHgrn2;
extern const Operator kGsa;
extern const Operator kDeltaRule;
extern const Operator kGdn;
extern const Operator kKda;
extern const Operator kGdn2;
extern const Operator kComba;
extern const Operator kGatedDeltaProduct;
extern const Operator kDplrDeltaRule;
extern const Operator kIplrDeltaRule;
extern const Operator kRwkv7;
extern const Operator kPrecondGdn;
extern const Operator kPrecondKda;

/// Every operator, in the order of math.md 6.
std::span<const Operator* const> operators();
/// Null when there is none of that name.
const Operator* find_operator(std::string_view name);

/// The factor of o under a descriptor.
double scale_of(const Operator& op, const OpDesc& desc);

}  // namespace fla::ref
