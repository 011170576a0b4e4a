// SPDX-License-Identifier: MIT
// Plans of the elementwise modules: pointwise, swiglu, add, lerp, hgrn2_gate.
#include <algorithm>
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

class Elementwise final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    Status status;
    for (const bool vectors : {false, true}) {
      if (status.ok())
        status = load({map_kernel(forward_op(), desc().dtype, vectors),
                       map_kernel(backward_op(), desc().dtype, vectors),
                       column_sum_kernel(SumOp::kHgrn2GateLower, desc().dtype, vectors)});
    }
    return status.ok() ? load({finish_kernel(desc().param_dtype)}) : status;
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    if (pass == Pass::kBackward && desc().module == Module::kHgrn2Gate)
      scratch.take<float>(partitions() * desc().width);
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    const Matrix x = matrix_of(t.in[0]);
    Matrix second = matrix_of(t.in[1]);
    if (desc().module == Module::kSwiGlu)
      second = part(x, desc().width);
    if (desc().module == Module::kHgrn2Gate)
      second = every_row(t.in[slot::Hgrn2Gate::lower]);
    return map(forward_op(), {x, second, matrix_of(t.in[2])}, {matrix_of(t.out[0])}, 0, stream);
  }

  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    const Matrix x = matrix_of(t.in[0]);
    const Matrix d_y = matrix_of(t.d_out[0]);
    const Matrix d_x = matrix_of(t.d_in[0]);
    switch (desc().module) {
      case Module::kPointwise:
        return map(backward_op(), {x, d_y}, {d_x}, t.accumulate, stream);
      case Module::kSwiGlu:
        return map(backward_op(), {x, part(x, desc().width), d_y}, {d_x, part(d_x, desc().width)},
                   adds(t, 0) ? 3U : 0U, stream);
      case Module::kLerp:
        return map(backward_op(), {x, matrix_of(t.in[1]), matrix_of(t.in[2]), d_y},
                   {d_x, matrix_of(t.d_in[1]), matrix_of(t.d_in[2])}, t.accumulate, stream);
      case Module::kHgrn2Gate:
        return gate_backward(t, workspace, stream);
      default:  // the gradients of a and b are y's
        return {};
    }
  }

 private:
  MapOp forward_op() const {
    switch (desc().module) {
      case Module::kSwiGlu:
        return MapOp::kSwiGlu;
      case Module::kAdd:
        return MapOp::kAdd;
      case Module::kLerp:
        return MapOp::kLerp;
      case Module::kHgrn2Gate:
        return MapOp::kHgrn2Gate;
      default:
        return MapOp::kPointwise;
    }
  }
  MapOp backward_op() const {
    switch (desc().module) {
      case Module::kSwiGlu:
        return MapOp::kSwiGluBackward;
      case Module::kLerp:
        return MapOp::kLerpBackward;
      case Module::kHgrn2Gate:
        return MapOp::kHgrn2GateBackward;
      default:
        return MapOp::kPointwiseBackward;
    }
  }

  int64_t partitions() const {
    return num_partitions(desc().rows, vectors_of(desc().width, vector()));
  }

  Status map(MapOp op, std::initializer_list<Matrix> in, std::initializer_list<Matrix> out,
             uint32_t accumulate, Stream stream) const {
    Map p;
    std::copy(in.begin(), in.end(), p.in);
    std::copy(out.begin(), out.end(), p.out);
    p.accumulate = accumulate;
    p.function = desc().function;
    p.scale = desc().scale;
    const bool vectors = in_vectors(in, {desc().width}) && in_vectors(out, {});
    p.tiling = make_tiling(desc().rows, vectors ? desc().width / vector() : desc().width);
    return launch(map_kernel(op, desc().dtype, vectors), tiling_blocks(p.tiling), &p, stream);
  }

  Status gate_backward(const ModuleTensors& t, Workspace workspace, Stream stream) const {
    using S = slot::Hgrn2Gate;
    const Matrix x = matrix_of(t.in[S::x]);
    const Matrix lower = every_row(t.in[S::lower]);
    const Matrix d_y = matrix_of(t.d_out[S::y]);
    Status status =
        map(backward_op(), {x, lower, d_y}, {matrix_of(t.d_in[S::x])}, t.accumulate, stream);
    if (!status.ok() || t.d_in[S::lower].data == nullptr)
      return status;
    ColumnSum p;
    p.in[0] = x;
    p.in[1] = lower;
    p.in[2] = d_y;
    p.partial = Scratch(workspace.data).take<float>(partitions() * desc().width);
    p.rows = static_cast<int32_t>(desc().rows);
    p.columns = static_cast<int32_t>(desc().width);
    const bool vectors = in_vectors({x, lower, d_y}, {desc().width});
    p.tiling = make_tiling(partitions(), vectors ? desc().width / vector() : desc().width);
    status = launch(column_sum_kernel(SumOp::kHgrn2GateLower, desc().dtype, vectors),
                    tiling_blocks(p.tiling), &p, stream);
    if (!status.ok())
      return status;
    return finish(p.partial, partitions(), desc().width, t.d_in[S::lower], adds(t, S::lower),
                  stream);
  }
};

}  // namespace

Made make_elementwise(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<Elementwise>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
