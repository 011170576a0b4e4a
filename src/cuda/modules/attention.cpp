// SPDX-License-Identifier: MIT
// Plan of attention, a plain baseline.
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

using S = slot::Attention;

class AttentionModule final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    const DType dtype = desc().dtype;
    if (channels() > kMostHeadChannels) {
      return {Code::kUnsupported, call() + ": a head has " + std::to_string(channels()) +
                                      " channels, the CUDA kernels take at most " +
                                      std::to_string(kMostHeadChannels)};
    }
    if (desc().cache_length > 0)
      return load({attention_append_kernel(dtype), attention_cached_kernel(dtype)});
    return load({attention_kernel(dtype, channels()), attention_dot_kernel(dtype),
                 attention_d_q_kernel(dtype, channels()),
                 attention_d_kv_kernel(dtype, channels())});
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    if (pass == Pass::kBackward)
      scratch.take<float>(desc().rows * desc().heads);
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    Attention p = describe(t);
    if (desc().cache_length == 0)
      return launch(attention_kernel(desc().dtype, channels()), tiles() * desc().heads, &p, stream);
    p.k_cache = matrix_of(t.in[S::k_cache]);
    p.v_cache = matrix_of(t.in[S::v_cache]);
    p.cache_length = static_cast<int32_t>(desc().cache_length);
    if (desc().has(S::positions))
      p.positions = static_cast<const int32_t*>(t.in[S::positions].data);
    const int64_t width = channels() * desc().key_heads();
    Status status = launch(attention_append_kernel(desc().dtype),
                           desc().rows * vectors_of(width, kThreads), &p, stream);
    if (!status.ok())
      return status;
    return launch(attention_cached_kernel(desc().dtype), desc().rows * desc().heads, &p, stream);
  }

  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    if (desc().cache_length > 0)
      return {Code::kUnsupported, call() + ": a call with caches has no backward pass"};
    Attention p = describe(t);
    p.d_y = matrix_of(t.d_out[S::y]);
    p.d_q = matrix_of(t.d_in[S::q]);
    p.d_k = matrix_of(t.d_in[S::k]);
    p.d_v = matrix_of(t.d_in[S::v]);
    p.add_q = adds(t, S::q);
    p.add_k = adds(t, S::k);
    p.add_v = adds(t, S::v);
    p.dot = Scratch(workspace.data).take<float>(desc().rows * desc().heads);
    const DType dtype = desc().dtype;
    constexpr int64_t kWarps = kThreads / 32;
    Status status = launch(attention_dot_kernel(dtype),
                           vectors_of(desc().rows * desc().heads, kWarps), &p, stream);
    if (status.ok() && p.d_q.data != nullptr)
      status = launch(attention_d_q_kernel(dtype, channels()), tiles() * desc().heads, &p, stream);
    if (!status.ok() || (p.d_k.data == nullptr && p.d_v.data == nullptr))
      return status;
    return launch(attention_d_kv_kernel(dtype, channels()), tiles() * desc().key_heads(), &p,
                  stream);
  }

 private:
  int64_t channels() const { return desc().width / desc().heads; }
  int64_t tiles() const {
    return vectors_of(desc().rows, attention_tile(attention_channels(channels())));
  }

  Attention describe(const ModuleTensors& t) const {
    Attention p;
    p.packing = packing(t.in[S::cu_seqlens]);
    p.q = matrix_of(t.in[S::q]);
    p.k = matrix_of(t.in[S::k]);
    p.v = matrix_of(t.in[S::v]);
    p.y = matrix_of(t.out[S::y]);
    p.lse = matrix_of(t.out[S::lse]);
    p.heads = static_cast<int32_t>(desc().heads);
    p.group = static_cast<int32_t>(desc().heads / desc().key_heads());
    p.channels = static_cast<int32_t>(channels());
    p.window = static_cast<int32_t>(desc().window);
    p.scale = desc().scale;
    return p;
  }
};

}  // namespace

Made make_attention(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<AttentionModule>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
