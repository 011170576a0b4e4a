// SPDX-License-Identifier: MIT
// Plans of rms_norm and layer_norm.
#include <algorithm>
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

class NormModule final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    const DType dtype = desc().dtype;
    return load({norm_kernel(kind(), dtype, 0), norm_kernel(kind(), dtype, 1),
                 norm_kernel(kind(), dtype, 4), norm_backward_kernel(kind(), dtype, 0),
                 norm_backward_kernel(kind(), dtype, 1), norm_backward_kernel(kind(), dtype, 4),
                 finish_kernel(desc().param_dtype)});
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    if (pass == Pass::kBackward) {
      scratch.take<float>(partitions() * desc().width);
      scratch.take<float>(partitions() * desc().width);
    }
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    Norm p = describe(t);
    p.y = matrix_of(t.out[0]);
    const int items = cut(in_vectors({p.x, p.gate, p.y, weight(p), bias(p)}, {channels()}), &p);
    return launch(norm_kernel(kind(), desc().dtype, items), team_blocks(p, desc().rows), &p,
                  stream);
  }

  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    Scratch scratch(workspace.data);
    Norm p = describe(t);
    p.d_y = matrix_of(t.d_out[0]);
    p.d_x = matrix_of(t.d_in[0]);
    p.add_x = adds(t, 0) && p.d_x.data != nullptr;
    if (kind() == NormKind::kGatedRms) {
      p.d_gate = matrix_of(t.d_in[slot::RmsNorm::gate]);
      p.add_gate = adds(t, slot::RmsNorm::gate);
    }
    p.d_weight = scratch.take<float>(partitions() * desc().width);
    p.d_bias = scratch.take<float>(partitions() * desc().width);
    p.partitions = static_cast<int32_t>(partitions());
    const bool vectors = in_vectors({p.x, p.gate, p.d_y, p.d_x, p.d_gate, weight(p)}, {channels()});
    const int items = cut(vectors, &p);
    Status status = launch(norm_backward_kernel(kind(), desc().dtype, items),
                           team_blocks(p, partitions()), &p, stream);
    if (!status.ok())
      return status;
    const int64_t each = desc().shared_weight ? desc().heads : 1;  // rows of the same channels
    status =
        finish(p.d_weight, partitions() * each, desc().width / each, t.d_in[1], adds(t, 1), stream);
    if (!status.ok() || kind() != NormKind::kLayer)
      return status;
    constexpr size_t kBias = slot::LayerNorm::bias;
    return finish(p.d_bias, partitions(), desc().width, t.d_in[kBias], adds(t, kBias), stream);
  }

 private:
  NormKind kind() const {
    if (desc().module == Module::kLayerNorm)
      return NormKind::kLayer;
    return desc().has(slot::RmsNorm::gate) ? NormKind::kGatedRms : NormKind::kRms;
  }
  int64_t channels() const { return desc().width / desc().heads; }
  static Matrix weight(const Norm& p) { return {const_cast<void*>(p.weight), 0}; }
  static Matrix bias(const Norm& p) { return {const_cast<void*>(p.bias), 0}; }

  /// Walkers over the rows of a head; as many whether or not vectors can be read.
  int64_t partitions() const {
    const int64_t team = int64_t{1} << team_log2(vectors_of(channels(), vector()));
    // As many blocks as multiprocessors of an H200 hold at once: a tail of blocks would idle them.
    const int64_t blocks = kind() == NormKind::kGatedRms ? 2 : 3;
    return num_partitions(desc().rows, desc().heads * team, blocks * 132 * kThreads);
  }
  static int32_t team_log2(int64_t vectors) {
    return std::min(log2_up(vectors), log2_up(kThreads));
  }
  static int64_t team_blocks(const Norm& p, int64_t rows) {
    const int64_t teams = kThreads >> p.team_log2;
    return (rows * p.heads + teams - 1) / teams;
  }

  Norm describe(const ModuleTensors& t) const {
    Norm p;
    p.x = matrix_of(t.in[0]);
    p.weight = t.in[1].data;
    if (kind() == NormKind::kLayer)
      p.bias = t.in[slot::LayerNorm::bias].data;
    if (kind() == NormKind::kGatedRms)
      p.gate = matrix_of(t.in[slot::RmsNorm::gate]);
    p.rows = static_cast<int32_t>(desc().rows);
    p.heads = static_cast<int32_t>(desc().heads);
    p.channels = static_cast<int32_t>(channels());
    p.eps = desc().eps;
    p.function = desc().function;
    p.shared_weight = desc().shared_weight;
    p.gate_first = desc().gate_first;
    return p;
  }

  /// Cuts a head among a team; returns the vectors of a thread that its registers hold.
  int cut(bool vectors, Norm* p) const {
    p->vectors = static_cast<int32_t>(vectors ? channels() / vector() : channels());
    p->team_log2 = team_log2(p->vectors);
    const int64_t each = vectors_of(p->vectors, int64_t{1} << p->team_log2);
    if (vectors && each <= 4)
      return each == 1 ? 1 : 4;
    if (vectors) {
      p->vectors = p->channels;
      p->team_log2 = team_log2(p->vectors);
    }
    return 0;
  }
};

}  // namespace

Made make_norm(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<NormModule>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
