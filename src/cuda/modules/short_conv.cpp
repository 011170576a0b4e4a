// SPDX-License-Identifier: MIT
// Plan of short_conv.
#include <algorithm>
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

using S = slot::ShortConv;

class ShortConvModule final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    const DType dtype = desc().dtype;
    return load({short_conv_kernel(dtype, false, taps()), short_conv_kernel(dtype, true, taps()),
                 short_conv_backward_kernel(dtype, false, taps()),
                 short_conv_backward_kernel(dtype, true, taps()), short_conv_state_kernel(dtype),
                 finish_kernel(desc().param_dtype)});
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    if (pass == Pass::kBackward) {
      scratch.take<float>(walks() * desc().width * desc().taps);
      scratch.take<float>(walks() * desc().width);
    }
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    ShortConv p = describe(t);
    p.y = matrix_of(t.out[S::y]);
    if (desc().has_out(S::final_state)) {
      p.final = t.out[S::final_state].data;
      p.final_row = matrix_of(t.out[S::final_state]).row;
    }
    const bool whole = desc().sequences == 0 && p.packing.length >= 1 && p.packing.length <= kWalk;
    p.walk = whole ? p.packing.length : kWalk;
    p.ends_sequences = whole && p.final != nullptr;
    const bool vectors = fast() && in_vectors({p.x, p.y}, {desc().width});
    const int64_t rows = (desc().rows + p.walk - 1) / p.walk;
    Status status = launch(short_conv_kernel(desc().dtype, vectors, taps()),
                           rows * cut(vectors ? kConvVector : 1, &p), &p, stream);
    if (!status.ok() || p.final == nullptr || p.ends_sequences)
      return status;
    return launch(short_conv_state_kernel(desc().dtype), desc().num_sequences() * cut(1, &p), &p,
                  stream);
  }

  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    Scratch scratch(workspace.data);
    ShortConv p = describe(t);
    p.d_y = matrix_of(t.d_out[S::y]);
    p.d_x = matrix_of(t.d_in[S::x]);
    p.d_weight = scratch.take<float>(walks() * desc().width * desc().taps);
    p.d_bias = scratch.take<float>(walks() * desc().width);
    p.walk = static_cast<int32_t>(walk());
    const bool vectors = fast() && in_vectors({p.x, p.d_y, p.d_x}, {desc().width});
    Status status = launch(short_conv_backward_kernel(desc().dtype, vectors, taps()),
                           walks() * cut(vectors ? kConvVector : 1, &p), &p, stream);
    if (!status.ok())
      return status;
    status = finish(p.d_weight, walks(), desc().width * desc().taps, t.d_in[S::weight],
                    adds(t, S::weight), stream);
    if (!status.ok() || !desc().has(S::bias))
      return status;
    return finish(p.d_bias, walks(), desc().width, t.d_in[S::bias], adds(t, S::bias), stream);
  }

 private:
  static constexpr int32_t kWalk = 32;          // forward, rows
  static constexpr int64_t kShortestWalk = 16;  // backward

  int taps() const { return static_cast<int>(desc().taps); }
  bool fast() const { return desc().taps == 4; }

  int64_t walk() const {
    const int64_t lanes = vectors_of(desc().width, kConvVector);
    const int64_t walkers = num_partitions(desc().rows, lanes, 2 * kWalkers);
    return std::max(kShortestWalk, (desc().rows + walkers - 1) / walkers);
  }
  int64_t walks() const { return (desc().rows + walk() - 1) / walk(); }

  /// Cuts the channels among blocks; returns how many.
  int64_t cut(int64_t vector, ShortConv* p) const {
    const int64_t blocks = vectors_of(desc().width, vector * kConvThreads);
    p->column_blocks = static_cast<int32_t>(blocks);
    return blocks;
  }

  ShortConv describe(const ModuleTensors& t) const {
    ShortConv p;
    p.packing = packing(t.in[S::cu_seqlens]);
    p.x = matrix_of(t.in[S::x]);
    p.weight = t.in[S::weight].data;
    p.bias = desc().has(S::bias) ? t.in[S::bias].data : nullptr;
    if (desc().has(S::initial_state)) {
      p.initial = t.in[S::initial_state].data;
      p.initial_row = matrix_of(t.in[S::initial_state]).row;
    }
    p.width = static_cast<int32_t>(desc().width);
    p.taps = static_cast<int32_t>(desc().taps);
    p.function = desc().function;
    return p;
  }
};

}  // namespace

Made make_short_conv(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<ShortConvModule>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
