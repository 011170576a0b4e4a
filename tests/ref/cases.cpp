// SPDX-License-Identifier: MIT
// Tiny problems for the reference.
#include "cases.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "core/philox.h"

namespace fla::ref {
namespace {

using enum Slot;

OpDesc small_desc() {
  OpDesc desc;
  desc.B = 1;
  desc.T = 5;
  desc.H = 1;
  desc.HV = 2;
  desc.K = 3;
  desc.V = 2;
  return desc;
}

bool is_in(const std::string& name, const std::set<std::string>& names) {
  return names.contains(name);
}

bool has_scalar_gate(const std::string& op) {
  return is_in(op, {"simple_gla", "ssd", "gdn", "comba", "gated_delta_product", "precond_gdn"});
}

std::vector<Slot> required_slots(const std::string& op) {
  static const std::map<std::string, std::vector<Slot>> kSlots = {
      {"linear_attn", {kQ, kK, kV}},
      {"retention", {kQ, kK, kV}},
      {"lightning_attn", {kQ, kK, kV}},
      {"simple_gla", {kQ, kK, kV}},
      {"ssd", {kQ, kK, kV, kG, kALog}},
      {"gla", {kQ, kK, kV, kG}},
      {"rwkv6", {kQ, kK, kV, kG, kU}},
      {"hgrn", {kV, kG}},
      {"hgrn2", {kQ, kV, kG}},
      {"gsa", {kQ, kK, kV, kS, kG}},
      {"delta_rule", {kQ, kK, kV, kBeta}},
      {"gdn", {kQ, kK, kV, kBeta}},
      {"kda", {kQ, kK, kV, kG, kBeta}},
      {"gdn2", {kQ, kK, kV, kG, kEraseGate, kWriteGate}},
      {"comba", {kQ, kK, kV, kG}},
      {"gated_delta_product", {kQ, kK, kV, kBeta}},
      {"dplr_delta_rule", {kQ, kK, kV, kA, kB, kG}},
      {"iplr_delta_rule", {kQ, kK, kV, kA, kB}},
      {"rwkv7", {kQ, kG, kK, kV, kA, kB}},
      {"precond_gdn", {kQ, kK, kV, kG, kBeta, kGAtk, kBetaAtk}},
      {"precond_kda", {kQ, kK, kV, kG, kBeta, kGAtk, kBetaAtk}},
  };
  return kSlots.at(op);
}

/// Collects the cases of one operator: `edit` changes a plain case.
class Collector {
 public:
  Collector(std::vector<Case>& cases, std::string op) : cases_(cases), op_(std::move(op)) {}

  Case plain() const {
    Case c = {op_, op_, small_desc(), required_slots(op_)};
    c.desc.M = op_ == "gsa" ? 4 : 0;
    c.desc.H = op_ == "hgrn" ? 2 : 1;
    c.desc.K = op_ == "hgrn" ? 1 : 3;
    return c;
  }
  void add(const std::string& label, const std::function<void(Case&)>& edit) {
    Case c = plain();
    edit(c);
    c.label = op_ + "_" + label;
    cases_.push_back(c);
  }

 private:
  std::vector<Case>& cases_;
  std::string op_;
};

void add_gate_cases(Collector& out) {
  const auto give = [](Case& c, std::vector<Slot> more) {
    if (std::ranges::find(c.slots, kG) == c.slots.end()) {
      c.slots.push_back(kG);
    }
    c.slots.insert(c.slots.end(), more.begin(), more.end());
  };
  out.add("softplus", [&](Case& c) {
    c.desc.gate_input = GateInput::kSoftplus;
    give(c, {kALog});
  });
  out.add("softplus_bias", [&](Case& c) {
    c.desc.gate_input = GateInput::kSoftplus;
    give(c, {kALog, kDtBias});
  });
}

void add_lower_bound_cases(Collector& out) {
  for (const bool a_log : {false, true}) {
    out.add(a_log ? "lower_bound_a_log" : "lower_bound", [&](Case& c) {
      c.desc.gate_input = GateInput::kLowerBound;
      c.desc.lower_bound = -3.0F;
      c.slots.push_back(kDtBias);
      if (a_log) {
        c.slots.push_back(kALog);
      }
    });
  }
}

void add_common_cases(Collector& out, const std::string& op) {
  out.add("plain", [](Case&) {});
  out.add("packed", [](Case& c) { c.desc.N = 3; });
  out.add("dense2", [](Case& c) {
    c.desc.B = 2;
    c.desc.T = 3;
  });
  out.add("one_by_one", [](Case& c) { c.desc.K = c.desc.V = 1; });
  out.add("no_tokens", [](Case& c) { c.desc.T = 0; });
  if (op == "hgrn") {
    return;
  }
  out.add("scale", [](Case& c) { c.desc.scale = 0.7F; });
  out.add("equal_heads", [](Case& c) { c.desc.H = 2; });
  out.add("groups", [](Case& c) {
    c.desc.H = 2;
    c.desc.HV = 4;
  });
  if (is_in(op, {"delta_rule", "gdn", "kda", "gdn2", "comba", "gated_delta_product", "precond_gdn",
                 "precond_kda"})) {
    out.add("l2norm", [](Case& c) { c.desc.l2norm_qk = true; });
  }
  if (is_in(op,
            {"delta_rule", "gdn", "kda", "gated_delta_product", "precond_gdn", "precond_kda"})) {
    out.add("beta_logits", [](Case& c) { c.desc.beta_sigmoid = true; });
    out.add("beta_neg", [](Case& c) { c.desc.beta_sigmoid = c.desc.allow_neg_eigval = true; });
  }
  if (is_in(op, {"gdn", "kda", "gdn2", "precond_kda"})) {
    add_gate_cases(out);
  }
  if (is_in(op, {"kda", "gdn2", "precond_kda"})) {
    add_lower_bound_cases(out);
  }
}

/// A case with `more` inputs given.
void add_given(Collector& out, const std::string& label, const std::vector<Slot>& more) {
  out.add(label, [&](Case& c) { c.slots.insert(c.slots.end(), more.begin(), more.end()); });
}

void add_attention_cases(Collector& out, const std::string& op) {
  if (op == "linear_attn") {
    out.add("normalize", [](Case& c) { c.desc.normalize = true; });
    out.add("normalize_packed", [](Case& c) {
      c.desc.normalize = true;
      c.desc.N = 3;
    });
  } else if (op == "lightning_attn") {
    out.add("layer", [](Case& c) {
      c.desc.layer_idx = 2;
      c.desc.num_layers = 5;
    });
  } else if (op == "simple_gla") {
    add_given(out, "g", {kG});
    add_given(out, "g_gamma", {kGGamma});
  } else if (op == "ssd") {
    add_given(out, "d", {kDSkip});
    add_given(out, "bias", {kDtBias});
    add_given(out, "d_bias", {kDSkip, kDtBias});
  }
}

void add_product_cases(Collector& out) {
  for (const int64_t steps : {2, 3}) {
    out.add("steps" + std::to_string(steps), [steps](Case& c) {
      c.desc.num_householder = steps;
      c.slots.push_back(kG);
    });
  }
  out.add("steps2_packed", [](Case& c) {
    c.desc.num_householder = 2;
    c.desc.N = 3;
    c.desc.l2norm_qk = true;
    c.slots.push_back(kG);
  });
}

void add_delta_cases(Collector& out, const std::string& op) {
  if (op == "gdn") {
    add_given(out, "g", {kG});
  } else if (op == "comba") {
    add_given(out, "p", {kP});
    add_given(out, "beta", {kBeta});
    add_given(out, "p_beta", {kP, kBeta});
    out.add("p_beta_l2norm", [](Case& c) {
      c.desc.l2norm_qk = true;
      c.slots.insert(c.slots.end(), {kP, kBeta});
    });
  } else if (op == "gated_delta_product") {
    add_product_cases(out);
  } else if (op == "precond_gdn" || op == "precond_kda") {
    add_given(out, "log_atk_scale", {kLogAtkScale});
    out.add("log_atk_scale_l2norm_packed", [](Case& c) {
      c.desc.l2norm_qk = true;
      c.desc.H = 2;
      c.desc.HV = 4;
      c.desc.N = 3;
      c.slots.push_back(kLogAtkScale);
    });
  } else if (op == "kda") {
    out.add("everything", [](Case& c) {
      c.desc.gate_input = GateInput::kSoftplus;
      c.desc.l2norm_qk = c.desc.beta_sigmoid = c.desc.allow_neg_eigval = true;
      c.desc.H = 2;
      c.desc.HV = 4;
      c.desc.N = 3;
      c.slots.insert(c.slots.end(), {kALog, kDtBias});
    });
  }
}

double sample(const Case& c, Slot slot, double x) {
  const bool raw_gate = c.desc.gate_input != GateInput::kLog || c.op == "ssd";
  switch (slot) {
    case kG:
    case kGGamma:
    case kGAtk:
      return slot == kG && raw_gate ? x : -0.5 * std::fabs(x);
    case kBeta:
    case kBetaAtk:
    case kEraseGate:
    case kWriteGate:
      return slot == kBeta && c.desc.beta_sigmoid ? x : 1.0 / (1.0 + std::exp(-x));
    case kInitialState2:
      return std::fabs(x) + 0.1;  // a logarithm or a quotient reads it
    case kQ:
    case kK:
      return c.desc.normalize ? std::fabs(x) + 0.1 : x;
    case kALog:
    case kLogAtkScale:
      return 0.3 * x;
    default:
      return x;
  }
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Operator* op : operators()) {
    Collector out(cases, std::string(op->name));
    add_common_cases(out, std::string(op->name));
    add_attention_cases(out, std::string(op->name));
    add_delta_cases(out, std::string(op->name));
  }
  return cases;
}

Case plain_case(const std::string& op) {
  std::vector<Case> none;
  return Collector(none, op).plain();
}

Problem make_problem(const Case& c) {
  Problem problem;
  problem.desc = c.desc;
  problem.scale = scale_of(*find_operator(c.op), c.desc);
  problem.num_tokens = c.desc.B * c.desc.T;
  if (c.desc.N == 3) {
    problem.sequences = {{0, 2}, {2, 2}, {2, c.desc.T}};
  } else {
    for (int64_t b = 0; b < c.desc.B; ++b) {
      problem.sequences.push_back({b * c.desc.T, (b + 1) * c.desc.T});
    }
  }
  return problem;
}

int64_t slot_elems(const Case& c, Slot slot) {
  const OpDesc& d = c.desc;
  const int64_t tokens = d.B * d.T;
  const int64_t HV = d.value_heads();
  const int64_t gate = has_scalar_gate(c.op) ? 1 : c.op == "gsa" ? d.M : c.op == "hgrn" ? d.V : d.K;
  switch (slot) {
    case kQ:
    case kA:
    case kB:
    case kP:
      return tokens * d.H * d.K;
    case kK:
      return tokens * d.num_householder * d.H * d.K;
    case kV:
      return tokens * d.num_householder * HV * d.V;
    case kG:
      return tokens * HV * gate;
    case kBeta:
      return tokens * d.num_householder * HV;
    case kS:
      return tokens * HV * d.M;
    case kEraseGate:
      return tokens * HV * d.K;
    case kWriteGate:
    case kO:
      return tokens * HV * d.V;
    case kGAtk:
    case kBetaAtk:
      return tokens * d.H;
    case kU:
      return d.H * d.K;
    case kGGamma:
    case kALog:
    case kDSkip:
      return HV;
    case kDtBias:
      return HV * gate;
    case kLogAtkScale:
      return d.H;
    case kInitialState:
    case kFinalState:
      return d.num_sequences() * find_operator(c.op)->state_elems(d);
    case kInitialState2:
    case kFinalState2:
      return d.num_sequences() * find_operator(c.op)->state2_elems(d);
    default:
      return 0;
  }
}

std::vector<double> normals(int64_t count, uint64_t stream) {
  const Philox philox(1, stream);
  std::vector<double> x;
  for (int64_t i = 0; i < count; ++i) {
    x.push_back(philox.normal(static_cast<uint64_t>(i)));
  }
  return x;
}

Arrays<double> make_inputs(const Case& c) {
  std::vector<Slot> slots = c.slots;
  slots.insert(slots.end(), {kInitialState, kInitialState2});
  Arrays<double> in;
  for (const Slot slot : slots) {
    in[slot] = normals(slot_elems(c, slot), static_cast<uint64_t>(slot));
    for (double& x : in[slot]) {
      x = sample(c, slot, x);
    }
  }
  return in;
}

Arrays<double> run_forward(const Case& c, const Arrays<double>& in) {
  Arrays<double> io = in;
  io[kO].assign(slot_elems(c, kO), 0.0);
  io[kFinalState] = in[kInitialState];
  io[kFinalState2] = in[kInitialState2];
  find_operator(c.op)->forward(make_problem(c), io);
  return io;
}

Arrays<double> run_backward(const Case& c, const Arrays<double>& in, const Arrays<double>& dout) {
  Arrays<double> grad;
  for (size_t i = 0; i < kNumSlots; ++i) {
    grad[static_cast<Slot>(i)].assign(in[static_cast<Slot>(i)].size(), 0.0);
  }
  grad[kO] = dout[kO];
  grad[kInitialState] = dout[kFinalState];
  grad[kInitialState2] = dout[kFinalState2];
  find_operator(c.op)->backward(make_problem(c), in, grad);
  return grad;
}

Arrays<double> make_output_gradients(const Case& c) {
  Arrays<double> dout;
  for (const Slot slot : {kO, kFinalState, kFinalState2}) {
    dout[slot] = normals(slot_elems(c, slot), 100 + static_cast<uint64_t>(slot));
  }
  return dout;
}

double relative_rms_error(const std::vector<double>& expected, const std::vector<double>& got) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (expected[i] - got[i]) * (expected[i] - got[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error) / (std::sqrt(norm) + 1e-30);
}

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.label;
}

}  // namespace fla::ref
