// SPDX-License-Identifier: MIT
// Tiny problems for the reference: every operator with every switch, and random inputs for them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "fla/op.h"
#include "ref/ops.h"
#include "ref/problem.h"

namespace fla::ref {

struct Case {
  std::string label;  // "kda_l2norm_packed"
  std::string op;
  OpDesc desc;
  std::vector<Slot> slots;  // the inputs that are given, without states
};

/// Every operator with every switch on its own and together.
std::vector<Case> all_cases();
/// The operator's first case: default switches, all optional inputs left out.
Case plain_case(const std::string& op);

/// Sequences of a case: its rows of T tokens, or with N > 0 three sequences of which the second is
/// empty.
Problem make_problem(const Case& c);
int64_t slot_elems(const Case& c, Slot slot);
/// Inputs and initial states, all given.
Arrays<double> make_inputs(const Case& c);
/// `count` normal numbers; equal `stream` means equal numbers.
std::vector<double> normals(int64_t count, uint64_t stream);

/// Runs forward on a copy of the inputs; the result holds o and the final states as well.
Arrays<double> run_forward(const Case& c, const Arrays<double>& in);
/// Gradients of every input and of the initial states, given those of o and of the final states.
Arrays<double> run_backward(const Case& c, const Arrays<double>& in, const Arrays<double>& dout);
/// Random gradients of o and of the final states.
Arrays<double> make_output_gradients(const Case& c);

/// RMS of the difference over RMS of `expected`.
double relative_rms_error(const std::vector<double>& expected, const std::vector<double>& got);

void PrintTo(const Case& c, std::ostream* out);

}  // namespace fla::ref
