// SPDX-License-Identifier: MIT
// Program: a graph and its schedule, planned on a backend and bound to memory; running it launches
// and no more.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/module.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "model/graph.h"
#include "model/memory.h"
#include "model/schedule.h"

namespace fla::model {

/// Where the lasting tensors of one or several graphs lie: parameters one after the other in the
/// order of the graph (so that the optimizer sees one array), inputs, states and outputs by name.
class Layout {
 public:
  /// Adds what `graph` has and the layout has not. Graphs of one model agree on everything of the
  /// same name.
  void add(const Graph& graph);

  int64_t parameter_offset(const std::string& name) const {
    return parameters_.at(name);
  }                                                       // elements
  int64_t num_elements() const { return num_elements_; }  // with the gaps that alignment leaves
  int64_t io_offset(const std::string& name) const { return io_.at(name); }  // bytes
  int64_t io_bytes() const { return io_bytes_; }

 private:
  std::map<std::string, int64_t> parameters_;
  std::map<std::string, int64_t> io_;
  int64_t num_elements_ = 0;
  int64_t io_bytes_ = 0;
};

/// The memory that programs of one model share.
struct Arena {
  Memory parameters;
  Memory gradients;  // empty where nothing trains
  Memory io;
  Memory activations;
  Memory workspace;
};

/// Time of one kind of launch in a profiled run.
struct LaunchTime {
  std::string name;  // "kda bwd", "linear fwd"
  int64_t count = 0;
  double seconds = 0;
};

class Program {
 public:
  /// Plans every node. Errors: as make_plan and ops::plan_module, with the layer named.
  static Result<Program> plan(Graph graph, Schedule schedule, const Context& context);

  const Graph& graph() const { return graph_; }
  const Schedule& schedule() const { return schedule_; }
  Device device() const { return context_.device; }
  int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Binds to memory that is large enough and outlives the program. Errors: kInternal for a tensor
  /// that its node refuses.
  Status bind(const Layout& layout, const Arena& arena);

  Status run(Stream stream) const;
  /// The launches [first, last) of run(), for what goes on between layers.
  Status run(size_t first, size_t last, Stream stream) const;
  size_t num_steps() const { return launches_.size(); }
  /// run(), with each launch timed by itself; sums by kind, longest first.
  Result<std::vector<LaunchTime>> profile(Stream stream) const;
  /// Dense products and operators, forward and backward as scheduled, recomputation not counted.
  double model_flops() const;

 private:
  struct Launch {
    const ModulePlan* module = nullptr;
    const Plan* op = nullptr;
    Pass pass = Pass::kForward;
    ModuleTensors tensors;
    std::unique_ptr<TensorSet> slots;
    TensorView cleared;
  };

  struct PlannedOp {
    std::string_view op;
    OpDesc desc;
    std::unique_ptr<Plan> plan;
  };

  const ModulePlan* find_module(const ModuleDesc& desc) const;
  Status plan_step(const Step& step);
  Status plan_module(const ModuleDesc& desc, Pass pass);
  const Plan* find_op(std::string_view op, const OpDesc& desc) const;
  static OpDesc op_desc(const Node& node, Pass pass);
  TensorView view(Tensor tensor, Place place, bool gradient) const;
  TensorView root_view(Tensor root, int32_t buffer, bool gradient) const;
  Status bind_module(const Step& step, Launch* launch) const;
  void bind_op(const Step& step, Launch* launch) const;
  ModuleDesc add_desc(Tensor tensor) const;
  Status launch(const Launch& launch, Stream stream) const;
  std::string launch_name(size_t i) const;

  Graph graph_;
  Schedule schedule_;
  Context context_;
  std::vector<std::pair<ModuleDesc, std::unique_ptr<ModulePlan>>> modules_;
  std::vector<PlannedOp> ops_;
  std::vector<Launch> launches_;
  const Layout* layout_ = nullptr;
  const Arena* arena_ = nullptr;
  int64_t workspace_bytes_ = 0;
};

}  // namespace fla::model
