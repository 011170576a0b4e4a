// SPDX-License-Identifier: MIT
// Plan of linear: three products by cuBLASLt, and the sum of the bias's gradient.
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"
#include "cuda/modules/products.h"

namespace fla::cuda::modules {
namespace {

using S = slot::Linear;

class Linear final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    Status status = load({finish_kernel(desc().param_dtype),
                          column_sum_kernel(SumOp::kColumn, desc().dtype, false),
                          column_sum_kernel(SumOp::kColumn, desc().dtype, true)});
    if (!status.ok() || desc().rows == 0)
      return status;
    const DType dtype = desc().dtype;
    return make_products(call(), device(),
                         {{&y_,
                           {.rows = desc().rows,
                            .columns = desc().out,
                            .inner = desc().width,
                            .transposed_b = true,
                            .operands = dtype,
                            .result = dtype,
                            .bias = desc().has(S::bias)}},
                          {&d_x_,
                           {.rows = desc().rows,
                            .columns = desc().width,
                            .inner = desc().out,
                            .operands = dtype,
                            .result = dtype}},
                          {&d_weight_,
                           {.rows = desc().out,
                            .columns = desc().width,
                            .inner = desc().rows,
                            .transposed_a = true,
                            .operands = dtype,
                            .result = dtype}}});
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    scratch.take<char>(kProductWorkspaceBytes);
    if (pass == Pass::kBackward && desc().has(S::bias))
      scratch.take<float>(partitions() * desc().out);
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    if (desc().rows == 0)
      return {};
    ProductCall product{.a = operand(t.in[S::x]),
                        .b = operand(t.in[S::weight]),
                        .c = {},
                        .d = operand(t.out[S::y])};
    if (desc().has(S::residual))
      product.c = operand(t.in[S::residual]);
    if (desc().has(S::bias))
      product.bias = t.in[S::bias].data;
    return y_->run(product, workspace, stream);
  }

  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    const ProductMatrix d_y = operand(t.d_out[S::y]);
    Status status;
    if (t.d_in[S::x].data != nullptr && desc().rows > 0)
      status = d_x_->run(gradient(t, S::x, d_y, t.in[S::weight]), workspace, stream);
    if (status.ok() && t.d_in[S::weight].data != nullptr) {
      if (desc().rows > 0) {
        status = d_weight_->run(gradient(t, S::weight, d_y, t.in[S::x]), workspace, stream);
      } else if (!adds(t, S::weight)) {
        status = clear(t.d_in[S::weight], stream);
      }
    }
    if (!status.ok() || !desc().has(S::bias) || t.d_in[S::bias].data == nullptr)
      return status;
    return bias_backward(t, workspace, stream);
  }

 private:
  static ProductCall gradient(const ModuleTensors& t, size_t input, const ProductMatrix& d_y,
                              const TensorView& other) {
    const ProductMatrix d = operand(t.d_in[input]);
    return {.a = d_y, .b = operand(other), .c = adds(t, input) ? d : ProductMatrix(), .d = d};
  }

  int64_t partitions() const {
    return num_partitions(desc().rows, vectors_of(desc().out, vector()));
  }

  Status bias_backward(const ModuleTensors& t, Workspace workspace, Stream stream) const {
    Scratch scratch(workspace.data);
    scratch.take<char>(kProductWorkspaceBytes);
    ColumnSum p;
    p.in[0] = matrix_of(t.d_out[S::y]);
    p.partial = scratch.take<float>(partitions() * desc().out);
    p.rows = static_cast<int32_t>(desc().rows);
    p.columns = static_cast<int32_t>(desc().out);
    const bool vectors = in_vectors({p.in[0]}, {desc().out});
    p.tiling = make_tiling(partitions(), vectors ? desc().out / vector() : desc().out);
    Status status = launch(column_sum_kernel(SumOp::kColumn, desc().dtype, vectors),
                           tiling_blocks(p.tiling), &p, stream);
    if (!status.ok())
      return status;
    return finish(p.partial, partitions(), desc().out, t.d_in[S::bias], adds(t, S::bias), stream);
  }

  std::unique_ptr<Product> y_, d_x_, d_weight_;
};

}  // namespace

Made make_linear(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<Linear>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
