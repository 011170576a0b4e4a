// SPDX-License-Identifier: MIT
// Plan of rotary.
#include <cmath>
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

using S = slot::Rotary;

class RotaryModule final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    return load({rotary_kernel(desc().dtype, false), rotary_kernel(desc().dtype, true)});
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    return turn(t, t.in[S::x], t.out[S::y], Pass::kForward, stream);
  }
  Status backward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    if (t.d_in[S::x].data == nullptr)
      return {};
    return turn(t, t.d_out[S::y], t.d_in[S::x], Pass::kBackward, stream);
  }

 private:
  Status turn(const ModuleTensors& t, const TensorView& from, const TensorView& to, Pass pass,
              Stream stream) const {
    Rotary p;
    p.packing = packing(t.in[S::cu_seqlens]);
    p.x = matrix_of(from);
    p.y = matrix_of(to);
    if (desc().has(S::positions))
      p.positions = static_cast<const int32_t*>(t.in[S::positions].data);
    p.heads = static_cast<int32_t>(desc().heads);
    p.half = static_cast<int32_t>(desc().width / desc().heads / 2);
    p.base_log2 = std::log2(static_cast<double>(desc().base));
    p.backward = pass == Pass::kBackward;
    p.accumulate = p.backward && adds(t, S::x);
    const bool vectors = in_vectors({p.x, p.y}, {p.half});
    p.lanes = vectors ? static_cast<int32_t>(p.half / vector()) : p.half;
    return launch(rotary_kernel(desc().dtype, vectors), vectors_of(desc().rows * p.lanes, kThreads),
                  &p, stream);
  }
};

}  // namespace

Made make_rotary(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<RotaryModule>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
