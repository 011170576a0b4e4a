// SPDX-License-Identifier: MIT
// Schedule: liveness, recomputation, gradients that meet, and places in the arena.
#include "model/schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/modules.h"
#include "ops/registry.h"

namespace fla::model {
namespace {

constexpr int64_t kAlign = 256;

using Columns = std::pair<int64_t, int64_t>;  // [first, end)

class Scheduler {
 public:
  Scheduler(const Graph& graph, Recompute recompute)
      : graph_(graph),
        recompute_(recompute),
        forward_(graph.tensors.size(), -1),
        backward_(graph.tensors.size(), -1),
        grad_(graph.tensors.size(), -1),
        written_(graph.tensors.size()),
        producer_(graph.tensors.size(), -1) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (Tensor out : graph.nodes[n].out) {
        if (out.given())
          producer_[index(out)] = static_cast<int32_t>(n);
      }
    }
  }

  Schedule run(bool gradients) {
    const auto num_nodes = static_cast<int32_t>(graph_.nodes.size());
    schedule_.gradient_done.assign(graph_.tensors.size(), -1);
    for (int32_t n = 0; n < num_nodes; ++n) {
      // The loss comes with its gradient, in one sweep over the logits.
      if (!(gradients && computes_loss(n)))
        emit_forward(n, &forward_);
    }
    if (gradients) {
      for (int32_t n = num_nodes - 1; n >= 0; --n)
        emit_backward(n);
    }
    place();
    return std::move(schedule_);
  }

 private:
  size_t index(Tensor tensor) const { return static_cast<size_t>(tensor.id); }
  size_t root(Tensor tensor) const { return index(graph_.root(tensor)); }
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  TensorKind kind(Tensor tensor) const { return graph_.tensors[root(tensor)].kind; }
  bool in_arena(Tensor tensor) const {
    return tensor.given() && kind(tensor) == TensorKind::kActivation;
  }
  bool computes_loss(int32_t n) const {
    return node(n).is_module && node(n).module.module == Module::kLinearCrossEntropy;
  }
  int32_t now() const { return static_cast<int32_t>(schedule_.steps.size()); }

  /// The tensors of a node in the order of Step::values.
  static std::vector<Tensor> tensors_of(const Node& node) {
    std::vector<Tensor> tensors;
    if (node.is_module) {
      tensors = node.in;
      tensors.insert(tensors.end(), node.out.begin(), node.out.end());
    } else {
      for (const auto& [slot, tensor] : node.slots)
        tensors.push_back(tensor);
    }
    return tensors;
  }
  static bool is_output(const Node& node, size_t i) {
    return node.is_module ? i >= node.in.size() : ops::is_output(node.slots[i].first);
  }

  int32_t new_buffer(int64_t rows, int64_t columns, DType dtype) {
    const int64_t bytes = rows * columns * static_cast<int64_t>(dtype_bytes(dtype));
    schedule_.buffers.push_back(
        {.bytes = (bytes + kAlign - 1) / kAlign * kAlign, .first = now(), .last = now()});
    return static_cast<int32_t>(schedule_.buffers.size()) - 1;
  }
  int32_t new_buffer(size_t root) {
    const TensorInfo& info = graph_.tensors[root];
    return new_buffer(info.rows, info.columns, info.dtype);
  }
  void touch(int32_t buffer) { schedule_.buffers[static_cast<size_t>(buffer)].last = now(); }

  void emit_forward(int32_t n, std::vector<int32_t>* where) {
    Step step = {.kind = StepKind::kForward, .node = n};
    const std::vector<Tensor> tensors = tensors_of(node(n));
    for (size_t i = 0; i < tensors.size(); ++i) {
      Place place;
      if (in_arena(tensors[i])) {
        int32_t& buffer = (*where)[root(tensors[i])];
        if (is_output(node(n), i))
          buffer = new_buffer(root(tensors[i]));
        place.buffer = buffer;
        touch(buffer);
      }
      step.values.push_back(place);
    }
    schedule_.steps.push_back(std::move(step));
  }

  bool is_kept(size_t r) const {
    const Node& from = node(producer_[r]);
    switch (recompute_) {
      case Recompute::kNothing:
        return true;
      case Recompute::kCheap:
        return !from.is_module || !ops::module_row(from.module.module).cheap;
      case Recompute::kBlocks:
        break;
    }
    return graph_.tensors[r].kept || from.layer < 0;
  }

  /// Makes a value available to the backward pass, by computing it again where it was dropped.
  void ensure(Tensor tensor) {
    if (!in_arena(tensor))
      return;
    const size_t r = root(tensor);
    if (backward_[r] >= 0)
      return;
    if (is_kept(r)) {
      backward_[r] = forward_[r];
      return;
    }
    const int32_t n = producer_[r];
    const std::vector<Tensor> tensors = tensors_of(node(n));
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!is_output(node(n), i))
        ensure(tensors[i]);
    }
    emit_forward(n, &backward_);
  }

  bool has_gradient(const Node& from) const {
    return std::any_of(from.out.begin(), from.out.end(),
                       [&](Tensor out) { return in_arena(out) && grad_[root(out)] >= 0; });
  }

  /// Clears the columns of a gradient that nobody wrote.
  void fill_gaps(Tensor out) {
    const size_t r = root(out);
    std::sort(written_[r].begin(), written_[r].end());
    std::vector<Columns> gaps;
    int64_t end = 0;
    for (const Columns& range : written_[r]) {
      if (range.first > end)
        gaps.emplace_back(end, range.first);
      end = std::max(end, range.second);
    }
    if (end < graph_.tensors[r].columns)
      gaps.emplace_back(end, graph_.tensors[r].columns);
    for (const Columns& gap : gaps) {
      touch(grad_[r]);
      schedule_.steps.push_back({.kind = StepKind::kZero,
                                 .tensor = out,
                                 .first_column = gap.first,
                                 .end_column = gap.second,
                                 .target = {.buffer = grad_[r]}});
    }
    written_[r] = {{0, graph_.tensors[r].columns}};
  }

  void emit_backward(int32_t n) {
    const Node& at = node(n);
    if (!computes_loss(n) && !has_gradient(at))
      return;
    const std::vector<Tensor> tensors = tensors_of(at);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (reads(at, i))
        ensure(tensors[i]);
    }
    for (Tensor out : at.out) {
      if (in_arena(out) && grad_[root(out)] >= 0)
        fill_gaps(out);
    }
    Step step = {.kind = StepKind::kBackward, .node = n};
    std::vector<Step> additions;
    for (size_t i = 0; i < tensors.size(); ++i) {
      Place value;
      Place grad;
      if (reads(at, i) && in_arena(tensors[i])) {
        value.buffer = backward_[root(tensors[i])];
        touch(value.buffer);
      }
      if (is_output(at, i)) {
        if (in_arena(tensors[i]))
          grad = {.buffer = grad_[root(tensors[i])], .wanted = grad_[root(tensors[i])] >= 0};
        if (grad.wanted)
          touch(grad.buffer);
      } else if (wants_gradient(at, i) && tensors[i].given()) {
        grad = target_of(at, i, tensors[i], &step, &additions);
      }
      step.values.push_back(value);
      step.grads.push_back(grad);
    }
    schedule_.steps.push_back(std::move(step));
    for (Step& addition : additions) {
      touch(addition.source.buffer);
      touch(addition.target.buffer);
      schedule_.steps.push_back(std::move(addition));
    }
    pass_residual(at);
  }

  static bool reads(const Node& at, size_t i) {
    if (!at.is_module)
      return !ops::is_output(at.slots[i].first);
    const ops::ModuleRow& row = ops::module_row(at.module.module);
    return i < at.in.size() ? (row.reads_in >> i & 1U) != 0
                            : (row.reads_out >> (i - at.in.size()) & 1U) != 0;
  }
  static bool wants_gradient(const Node& at, size_t i) {
    if (at.is_module)
      return (ops::module_row(at.module.module).grads >> i & 1U) != 0;
    const Slot slot = at.slots[i].first;
    return slot != Slot::kCuSeqlens;
  }

  /// Where the gradient of input i goes; notes when it has to be added to what is there.
  Place target_of(const Node& at, size_t i, Tensor tensor, Step* step,
                  std::vector<Step>* additions) {
    const size_t r = root(tensor);
    const bool can_add =
        at.is_module && (ops::module_row(at.module.module).accumulates >> i & 1U) != 0;
    if (!in_arena(tensor)) {
      if (graph_.tensors[r].kind != TensorKind::kParameter)
        return {};
      if (!written_[r].empty())
        step->accumulate |= 1U << i;
      written_[r] = {{0, graph_.tensors[r].columns}};
      schedule_.gradient_done[r] = now();
      return {.wanted = true};
    }
    if (grad_[r] < 0)
      grad_[r] = new_buffer(r);
    touch(grad_[r]);
    const Columns range = columns_of(tensor);
    const auto meets = [&](const Columns& other) {
      return other.first < range.second && range.first < other.second;
    };
    if (std::none_of(written_[r].begin(), written_[r].end(), meets)) {
      written_[r].push_back(range);
      return {.buffer = grad_[r], .wanted = true};
    }
    if (can_add) {
      step->accumulate |= 1U << i;
      return {.buffer = grad_[r], .wanted = true};
    }
    const TensorInfo& info = graph_.info(tensor);
    const Place packed = {
        .buffer = new_buffer(info.rows, info.columns, info.dtype), .packed = true, .wanted = true};
    additions->push_back({.kind = StepKind::kAdd,
                          .tensor = tensor,
                          .target = {.buffer = grad_[r]},
                          .source = packed});
    return packed;
  }

  Columns columns_of(Tensor tensor) const {
    const int64_t columns = graph_.info(tensor).columns;
    int64_t first = 0;
    for (; graph_.info(tensor).parent.given(); tensor = graph_.info(tensor).parent)
      first += graph_.info(tensor).column0;
    return {first, first + columns};
  }

  /// The gradient of a product's residual is that of the product: the buffer changes hands.
  void pass_residual(const Node& at) {
    if (!at.is_module || at.module.module != Module::kLinear)
      return;
    const Tensor residual = at.in[slot::Linear::residual];
    if (!residual.given())
      return;
    const size_t r = root(residual);
    const int32_t own = grad_[root(at.out[0])];
    if (grad_[r] < 0) {
      grad_[r] = own;
      written_[r] = {{0, graph_.tensors[r].columns}};
      return;
    }
    touch(own);
    touch(grad_[r]);
    schedule_.steps.push_back({.kind = StepKind::kAdd,
                               .tensor = residual,
                               .target = {.buffer = grad_[r]},
                               .source = {.buffer = own}});
  }

  /// Largest first, each at the lowest offset that is free while it lives.
  void place() {
    std::vector<size_t> order(schedule_.buffers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return schedule_.buffers[a].bytes > schedule_.buffers[b].bytes;
    });
    std::vector<size_t> placed;  // by offset
    for (size_t b : order) {
      Buffer& buffer = schedule_.buffers[b];
      int64_t offset = 0;
      for (size_t other : placed) {
        const Buffer& there = schedule_.buffers[other];
        if (there.last < buffer.first || buffer.last < there.first)
          continue;
        if (there.offset >= offset + buffer.bytes)
          break;
        offset = std::max(offset, there.offset + there.bytes);
      }
      buffer.offset = offset;
      schedule_.arena_bytes = std::max(schedule_.arena_bytes, offset + buffer.bytes);
      placed.insert(std::upper_bound(placed.begin(), placed.end(), b,
                                     [&](size_t x, size_t y) {
                                       return schedule_.buffers[x].offset <
                                              schedule_.buffers[y].offset;
                                     }),
                    b);
    }
  }

  const Graph& graph_;
  Recompute recompute_;
  Schedule schedule_;
  std::vector<int32_t> forward_;   // by root: the buffer that the forward pass filled
  std::vector<int32_t> backward_;  // by root: the buffer that the backward pass reads
  std::vector<int32_t> grad_;
  std::vector<std::vector<Columns>> written_;  // by root: columns whose gradient is there
  std::vector<int32_t> producer_;
};

}  // namespace

Schedule make_schedule(const Graph& graph, bool gradients, Recompute recompute) {
  return Scheduler(graph, recompute).run(gradients);
}

}  // namespace fla::model
