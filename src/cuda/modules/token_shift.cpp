// SPDX-License-Identifier: MIT
// Plan of token_shift.
#include <algorithm>
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

using S = slot::TokenShift;

class TokenShiftModule final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    const DType dtype = desc().dtype;
    Status status = load({finish_kernel(desc().param_dtype)});
    for (const bool vectors : {false, true}) {
      if (status.ok())
        status = load({token_shift_kernel(dtype, vectors), token_shift_state_kernel(dtype, vectors),
                       token_shift_backward_kernel(dtype, vectors),
                       token_shift_mix_kernel(dtype, vectors)});
    }
    return status;
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    if (pass == Pass::kBackward)
      scratch.take<float>(walks() * mixtures());
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    TokenShift p = describe(t);
    p.y = matrix_of(t.out[S::y]);
    if (desc().has_out(S::final_state))
      p.final = matrix_of(t.out[S::final_state]);
    const bool vectors = in_vectors({p.x, p.y, p.mix, p.initial, p.final}, {desc().width});
    p.ends_sequences = p.final.data != nullptr && desc().sequences == 0 && p.packing.length == 1;
    Status status = launch_tiled(token_shift_kernel(desc().dtype, vectors), desc().rows,
                                 desc().width, vectors, &p, stream);
    if (!status.ok() || p.final.data == nullptr || p.ends_sequences)
      return status;
    return launch_tiled(token_shift_state_kernel(desc().dtype, vectors), desc().num_sequences(),
                        desc().width, vectors, &p, stream);
  }

  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    TokenShift p = describe(t);
    p.d_y = matrix_of(t.d_out[S::y]);
    p.d_x = matrix_of(t.d_in[S::x]);
    p.accumulate = adds(t, S::x);
    const bool vectors = in_vectors({p.x, p.mix, p.initial, p.d_y, p.d_x}, {desc().width});
    Status status;
    if (p.d_x.data != nullptr)
      status = launch_tiled(token_shift_backward_kernel(desc().dtype, vectors), desc().rows,
                            desc().width, vectors, &p, stream);
    if (!status.ok() || t.d_in[S::mix].data == nullptr)
      return status;
    p.d_mix = Scratch(workspace.data).take<float>(walks() * mixtures());
    p.walk = static_cast<int32_t>(walk());
    status = launch_tiled(token_shift_mix_kernel(desc().dtype, vectors), walks(), mixtures(),
                          vectors, &p, stream);
    if (!status.ok())
      return status;
    return finish(p.d_mix, walks(), mixtures(), t.d_in[S::mix], adds(t, S::mix), stream);
  }

 private:
  int64_t mixtures() const { return desc().taps * desc().width; }
  int64_t walk() const {
    const int64_t walkers = num_partitions(desc().rows, vectors_of(mixtures(), vector()));
    return std::max<int64_t>(1, (desc().rows + walkers - 1) / walkers);
  }
  int64_t walks() const { return (desc().rows + walk() - 1) / walk(); }

  Status launch_tiled(const Kernel& kernel, int64_t rows, int64_t columns, bool vectors,
                      TokenShift* p, Stream stream) const {
    p->tiling = make_tiling(rows, vectors ? columns / vector() : columns);
    return launch(kernel, tiling_blocks(p->tiling), p, stream);
  }

  TokenShift describe(const ModuleTensors& t) const {
    TokenShift p;
    p.packing = packing(t.in[S::cu_seqlens]);
    p.x = matrix_of(t.in[S::x]);
    p.mix = matrix_of(t.in[S::mix]);
    if (desc().has(S::initial_state))
      p.initial = matrix_of(t.in[S::initial_state]);
    p.width = static_cast<int32_t>(desc().width);
    p.taps = static_cast<int32_t>(desc().taps);
    return p;
  }
};

}  // namespace

Made make_token_shift(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<TokenShiftModule>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
