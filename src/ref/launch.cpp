// SPDX-License-Identifier: MIT
// The driver: views to arrays, sequences resolved, the operator's function, arrays to views.
#include "ref/launch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ref/ops.h"
#include "ref/problem.h"
#include "ref/views.h"

namespace fla::ref {
namespace {

constexpr int kFirstInput = static_cast<int>(Slot::kQ);
constexpr int kLastInput = static_cast<int>(Slot::kLogAtkScale);
constexpr int kMatrixStateRank = 4;

/// The sequences that are computed, and where the states of each live.
struct Walk {
  std::vector<Sequence> sequences;
  std::vector<int64_t> state_rows;
  std::vector<bool> reads_state;  // false: starts from zero
};

Walk resolve_sequences(const OpDesc& desc, const TensorSet& tensors) {
  const TensorView& indices = tensors[Slot::kStateIndices];
  const TensorView& mask = tensors[Slot::kInitialStateMask];
  std::vector<int64_t> bounds;
  if (desc.N > 0) {
    bounds = gather_integers(tensors[Slot::kCuSeqlens]);
  } else {
    for (int64_t b = 0; b <= desc.B; ++b) {
      bounds.push_back(b * desc.T);
    }
  }
  const std::vector<int64_t> rows =
      indices.data ? gather_integers(indices) : std::vector<int64_t>();
  const std::vector<int64_t> reads = mask.data ? gather_integers(mask) : std::vector<int64_t>();
  Walk walk;
  for (size_t n = 0; n + 1 < bounds.size(); ++n) {
    const int64_t state_row = rows.empty() ? static_cast<int64_t>(n) : rows[n];
    if (state_row < 0) {
      continue;
    }
    walk.sequences.push_back({bounds[n], bounds[n + 1]});
    walk.state_rows.push_back(state_row);
    walk.reads_state.push_back(reads.empty() || reads[n] != 0);
  }
  return walk;
}

/// The state of one row, seen as [.., K, V] whatever its order in memory.
TensorView state_view(const OpDesc& desc, const TensorView& states, int64_t row) {
  const bool swap = desc.state_v_first && states.rank == kMatrixStateRank;
  return subview(swap ? transposed(states) : states, row);
}

/// States [sequences, elems], zero where the view is null or, for initial states, masked.
std::vector<double> gather_states(const OpDesc& desc, const Walk& walk, const TensorView& view,
                                  int64_t elems, bool masked) {
  std::vector<double> states;
  for (size_t n = 0; n < walk.sequences.size(); ++n) {
    const bool zero = view.data == nullptr || (masked && !walk.reads_state[n]);
    const std::vector<double> state =
        zero ? std::vector<double>(elems) : gather(state_view(desc, view, walk.state_rows[n]));
    states.insert(states.end(), state.begin(), state.end());
  }
  return states;
}

void scatter_states(const OpDesc& desc, const Walk& walk, const std::vector<double>& states,
                    int64_t elems, const TensorView& view) {
  if (view.data == nullptr) {
    return;
  }
  for (size_t n = 0; n < walk.sequences.size(); ++n) {
    scatter(std::span(states).subspan(n * elems, elems),
            state_view(desc, view, walk.state_rows[n]));
  }
}

class RefPlan final : public PlanImpl {
 public:
  RefPlan(const Operator& op, const OpDesc& desc)
      : op_(op),
        desc_(desc),
        name_("ref." + std::string(op.name) + (desc.pass == Pass::kForward ? "_fwd" : "_bwd")) {}

  const std::string& name() const override { return name_; }
  size_t workspace_bytes() const override { return 0; }

  Status run(const TensorSet& tensors, Workspace, Stream) const override {
    try {
      if (desc_.pass == Pass::kForward) {
        run_forward(tensors);
      } else {
        run_backward(tensors);
      }
    } catch (const std::bad_alloc&) {
      return Status(Code::kInternal, name_ + ": out of memory");
    }
    return Status();
  }

 private:
  Arrays<double> gather_inputs(const Walk& walk, const TensorSet& tensors) const {
    Arrays<double> in;
    for (int i = kFirstInput; i <= kLastInput; ++i) {
      const Slot slot = static_cast<Slot>(i);
      if (tensors[slot].data != nullptr) {
        in[slot] = gather(tensors[slot]);
      }
    }
    in[Slot::kInitialState] =
        gather_states(desc_, walk, tensors[Slot::kInitialState], op_.state_elems(desc_), true);
    in[Slot::kInitialState2] =
        gather_states(desc_, walk, tensors[Slot::kInitialState2], op_.state2_elems(desc_), true);
    return in;
  }

  Problem problem(const Walk& walk) const {
    return {desc_, scale_of(op_, desc_), desc_.B * desc_.T, walk.sequences};
  }

  void run_forward(const TensorSet& tensors) const {
    const Walk walk = resolve_sequences(desc_, tensors);
    Arrays<double> io = gather_inputs(walk, tensors);
    io[Slot::kO].resize(desc_.B * desc_.T * desc_.value_heads() * desc_.V);
    io[Slot::kFinalState] = io[Slot::kInitialState];
    io[Slot::kFinalState2] = io[Slot::kInitialState2];
    op_.forward(problem(walk), io);
    scatter(io[Slot::kO], tensors[Slot::kO]);
    scatter_states(desc_, walk, io[Slot::kFinalState], op_.state_elems(desc_),
                   tensors[Slot::kFinalState]);
    scatter_states(desc_, walk, io[Slot::kFinalState2], op_.state2_elems(desc_),
                   tensors[Slot::kFinalState2]);
  }

  void run_backward(const TensorSet& tensors) const {
    const Walk walk = resolve_sequences(desc_, tensors);
    const Arrays<double> in = gather_inputs(walk, tensors);
    Arrays<double> grad;
    for (int i = kFirstInput; i <= kLastInput; ++i) {
      grad[static_cast<Slot>(i)].resize(in[static_cast<Slot>(i)].size());
    }
    grad[Slot::kO] = gather(tensors.grad(Slot::kO));
    grad[Slot::kInitialState] =
        gather_states(desc_, walk, tensors.grad(Slot::kFinalState), op_.state_elems(desc_), false);
    grad[Slot::kInitialState2] = gather_states(desc_, walk, tensors.grad(Slot::kFinalState2),
                                               op_.state2_elems(desc_), false);
    op_.backward(problem(walk), in, grad);
    for (int i = kFirstInput; i <= kLastInput; ++i) {
      const Slot slot = static_cast<Slot>(i);
      if (tensors.grad(slot).data != nullptr) {
        scatter(grad[slot], tensors.grad(slot));
      }
    }
    scatter_state_gradients(walk, grad[Slot::kInitialState], op_.state_elems(desc_),
                            tensors.grad(Slot::kInitialState));
    scatter_state_gradients(walk, grad[Slot::kInitialState2], op_.state2_elems(desc_),
                            tensors.grad(Slot::kInitialState2));
  }

  /// An initial state that was not read has gradient zero.
  void scatter_state_gradients(const Walk& walk, std::vector<double>& states, int64_t elems,
                               const TensorView& view) const {
    for (size_t n = 0; n < walk.sequences.size(); ++n) {
      if (!walk.reads_state[n]) {
        std::fill_n(states.begin() + static_cast<int64_t>(n) * elems, elems, 0.0);
      }
    }
    scatter_states(desc_, walk, states, elems, view);
  }

  const Operator& op_;
  OpDesc desc_;
  std::string name_;
};

}  // namespace

Result<std::unique_ptr<PlanImpl>> plan(std::string_view op, const OpDesc& desc) {
  const Operator* found = find_operator(op);
  if (found == nullptr) {
    return Status(Code::kUnsupported, "the ref backend has no operator " + std::string(op));
  }
  return std::unique_ptr<PlanImpl>(std::make_unique<RefPlan>(*found, desc));
}

}  // namespace fla::ref
