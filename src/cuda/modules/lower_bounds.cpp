// SPDX-License-Identifier: MIT
// Plan of hgrn2_lower_bounds.
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

using S = slot::Hgrn2LowerBounds;

class LowerBoundsModule final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    return load({lower_bounds_kernel(desc().dtype), lower_bounds_backward_kernel(desc().dtype)});
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    LowerBounds p = describe(t);
    p.y = matrix_of(t.out[S::y]);
    return launch(lower_bounds_kernel(desc().dtype), blocks(), &p, stream);
  }
  Status backward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    if (t.d_in[S::x].data == nullptr)
      return {};
    LowerBounds p = describe(t);
    p.d_y = matrix_of(t.d_out[S::y]);
    p.d_x = matrix_of(t.d_in[S::x]);
    p.accumulate = adds(t, S::x);
    return launch(lower_bounds_backward_kernel(desc().dtype), blocks(), &p, stream);
  }

 private:
  int64_t blocks() const { return desc().rows == 0 ? 0 : vectors_of(desc().width, kThreads); }
  LowerBounds describe(const ModuleTensors& t) const {
    LowerBounds p;
    p.x = matrix_of(t.in[S::x]);
    p.layers = static_cast<int32_t>(desc().rows);
    p.width = static_cast<int32_t>(desc().width);
    return p;
  }
};

}  // namespace

Made make_lower_bounds(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<LowerBoundsModule>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
