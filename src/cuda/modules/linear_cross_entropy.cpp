// SPDX-License-Identifier: MIT
// Plan of linear_cross_entropy: logits in blocks of rows, never all of them (models.md B.1).
#include <algorithm>
#include <utility>

#include "cuda/modules/finish.h"
#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"
#include "cuda/modules/products.h"

namespace fla::cuda::modules {
namespace {

using S = slot::LinearCrossEntropy;

/// The products of a block of rows.
struct BlockProducts {
  std::unique_ptr<Product> logits, d_x, d_weight;
};

/// Scratch of a call.
struct Arrays {
  void* product = nullptr;
  void* logits = nullptr;
  float* row_loss = nullptr;
  float* targets = nullptr;
  float* d_weight = nullptr;  // fp32 sum over the blocks
};

class LinearCrossEntropy final : public CudaModule {
 public:
  LinearCrossEntropy(const ModuleDesc& desc, std::string call, int device)
      : CudaModule(desc, std::move(call), device) {
    const int64_t most = std::min<int64_t>(8, (desc.out + desc.width - 1) / desc.width);
    block_rows_ = std::min(int64_t{1} << log2_up((desc.rows + most - 1) / most), desc.rows);
  }

  Status prepare() override {
    Status status = load({count_targets_kernel(), cross_entropy_kernel(desc().dtype),
                          mean_loss_kernel(), convert_kernel(desc().param_dtype)});
    if (!status.ok() || desc().rows == 0)
      return status;
    status = make_block(block_rows_, &block_);
    const int64_t rest = desc().rows % block_rows_;
    if (status.ok() && rest > 0)
      status = make_block(rest, &last_);
    return status;
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    take(pass, &scratch);
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    return run_blocks(Pass::kForward, t, workspace, stream);
  }
  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    return run_blocks(Pass::kBackward, t, workspace, stream);
  }

 private:
  bool one_block() const { return desc().rows <= block_rows_; }
  /// Sums of the weight's gradient have an fp32 array of their own where its dtype is narrower.
  bool sums_apart() const { return !one_block() && desc().param_dtype != DType::kFp32; }
  int64_t logits_stride() const { return vectors_of(desc().out, vector()) * vector(); }

  Status make_block(int64_t rows, BlockProducts* block) const {
    const DType dtype = desc().dtype;
    const DType sums = one_block() ? dtype : DType::kFp32;
    return make_products(call(), device(),
                         {{&block->logits,
                           {.rows = rows,
                            .columns = desc().out,
                            .inner = desc().width,
                            .transposed_b = true,
                            .operands = dtype,
                            .result = dtype}},
                          {&block->d_x,
                           {.rows = rows,
                            .columns = desc().width,
                            .inner = desc().out,
                            .operands = dtype,
                            .result = dtype}},
                          {&block->d_weight,
                           {.rows = desc().out,
                            .columns = desc().width,
                            .inner = rows,
                            .transposed_a = true,
                            .operands = dtype,
                            .result = sums}}});
  }

  Arrays take(Pass pass, Scratch* scratch) const {
    Arrays arrays;
    arrays.product = scratch->take<char>(kProductWorkspaceBytes);
    arrays.logits = scratch->take<char>(block_rows_ * logits_stride() *
                                        static_cast<int64_t>(dtype_bytes(desc().dtype)));
    arrays.row_loss = scratch->take<float>(desc().rows);
    arrays.targets = scratch->take<float>(1);
    if (pass == Pass::kBackward && sums_apart())
      arrays.d_weight = scratch->take<float>(desc().out * desc().width);
    return arrays;
  }

  Status run_blocks(Pass pass, const ModuleTensors& t, Workspace workspace, Stream stream) const {
    Scratch scratch(workspace.data);
    const Arrays arrays = take(pass, &scratch);
    CrossEntropy p;
    p.logits = arrays.logits;
    p.labels = static_cast<const int32_t*>(t.in[S::labels].data);
    p.row_loss = arrays.row_loss;
    p.targets = arrays.targets;
    p.loss = static_cast<float*>(t.out[S::loss].data);
    p.rows = static_cast<int32_t>(desc().rows);
    p.vocabulary = static_cast<int32_t>(desc().out);
    p.stride = logits_stride();
    p.gradient = pass == Pass::kBackward;
    Status status = launch(count_targets_kernel(), 1, &p, stream);
    for (int64_t first = 0; first < desc().rows && status.ok(); first += block_rows_) {
      p.first = static_cast<int32_t>(first);
      status = run_block(p, t, arrays, stream);
    }
    if (status.ok() && p.loss != nullptr)
      status = launch(mean_loss_kernel(), 1, &p, stream);
    if (!status.ok() || pass == Pass::kForward || t.d_in[S::weight].data == nullptr)
      return status;
    return end_weight(t, arrays, stream);
  }

  Status run_block(const CrossEntropy& p, const ModuleTensors& t, const Arrays& arrays,
                   Stream stream) const {
    const int64_t rows = std::min(block_rows_, desc().rows - p.first);
    const BlockProducts& products = rows == block_rows_ ? block_ : last_;
    const Workspace workspace{arrays.product, kProductWorkspaceBytes};
    const ProductMatrix x = rows_from(t.in[S::x], p.first);
    const ProductMatrix weight = operand(t.in[S::weight]);
    const ProductMatrix logits{arrays.logits, logits_stride()};
    Status status =
        products.logits->run({.a = x, .b = weight, .c = {}, .d = logits}, workspace, stream);
    if (status.ok())
      status = launch(cross_entropy_kernel(desc().dtype), rows, &p, stream);
    if (!status.ok() || !p.gradient)
      return status;
    if (t.d_in[S::x].data != nullptr) {
      const ProductMatrix d_x = rows_from(t.d_in[S::x], p.first);
      status = products.d_x->run(
          {.a = logits, .b = weight, .c = adds(t, S::x) ? d_x : ProductMatrix(), .d = d_x},
          workspace, stream);
    }
    if (!status.ok() || t.d_in[S::weight].data == nullptr)
      return status;
    const ProductMatrix sum =
        sums_apart() ? ProductMatrix{arrays.d_weight, desc().width} : operand(t.d_in[S::weight]);
    const bool begun = p.first > 0 || (!sums_apart() && adds(t, S::weight));
    return products.d_weight->run(
        {.a = logits, .b = x, .c = begun ? sum : ProductMatrix(), .d = sum}, workspace, stream);
  }

  Status end_weight(const ModuleTensors& t, const Arrays& arrays, Stream stream) const {
    const TensorView& d_weight = t.d_in[S::weight];
    if (desc().rows == 0)
      return adds(t, S::weight) ? Status() : clear(d_weight, stream);
    if (!sums_apart())
      return {};
    const Convert p{arrays.d_weight, d_weight.data, desc().out * desc().width, adds(t, S::weight)};
    return launch(convert_kernel(desc().param_dtype), convert_blocks(p.count), &p, stream);
  }

  ProductMatrix rows_from(const TensorView& view, int64_t row) const {
    const int64_t bytes = row * view.stride[0] * static_cast<int64_t>(dtype_bytes(view.dtype));
    return {static_cast<char*>(view.data) + bytes, view.stride[0]};
  }

  int64_t block_rows_ = 0;
  BlockProducts block_, last_;
};

}  // namespace

Made make_linear_cross_entropy(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<LinearCrossEntropy>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
