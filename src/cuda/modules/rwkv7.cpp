// SPDX-License-Identifier: MIT
// Plans of rwkv7_key and rwkv7_output.
#include <algorithm>
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

class Rwkv7Module final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    return load({kernel(Pass::kForward, false), kernel(Pass::kForward, true),
                 kernel(Pass::kBackward, false), kernel(Pass::kBackward, true),
                 finish_kernel(desc().param_dtype)});
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    for (size_t i = 0; i < num_parameters() && pass == Pass::kBackward; ++i)
      scratch.take<float>(partitions() * desc().width);
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    Rwkv7 p = describe(t, t.out);
    const bool vectors = cut(&p);
    return launch(kernel(Pass::kForward, vectors), team_blocks(p, desc().rows), &p, stream);
  }

  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    Scratch scratch(workspace.data);
    Rwkv7 p = describe(t, t.d_out);
    for (size_t i = 0; i < num_inputs(); ++i)
      p.d_in[i] = matrix_of(t.d_in[i]);
    for (size_t i = 0; i < num_parameters(); ++i)
      p.d_parameter[i] = scratch.take<float>(partitions() * desc().width);
    p.accumulate = t.accumulate;
    p.partitions = static_cast<int32_t>(partitions());
    const bool vectors = cut(&p);
    Status status =
        launch(kernel(Pass::kBackward, vectors), team_blocks(p, partitions()), &p, stream);
    for (size_t i = 0; i < num_parameters() && status.ok(); ++i) {
      const size_t input = num_inputs() + i;
      status = finish(p.d_parameter[i], partitions(), desc().width, t.d_in[input], adds(t, input),
                      stream);
    }
    return status;
  }

 private:
  bool is_key() const { return desc().module == Module::kRwkv7Key; }
  // Activations come first, then parameters.
  size_t num_inputs() const { return is_key() ? 2 : 5; }
  size_t num_parameters() const { return is_key() ? 2 : 1; }
  size_t num_outputs() const { return is_key() ? 3 : 1; }
  int64_t channels() const { return desc().width / desc().heads; }

  Kernel kernel(Pass pass, bool vectors) const {
    const DType dtype = desc().dtype;
    if (pass == Pass::kForward)
      return is_key() ? rwkv7_key_kernel(dtype, vectors) : rwkv7_output_kernel(dtype, vectors);
    return is_key() ? rwkv7_key_backward_kernel(dtype, vectors)
                    : rwkv7_output_backward_kernel(dtype, vectors);
  }

  /// Walkers over the rows of a head; as many whether or not vectors can be read.
  int64_t partitions() const {
    const int64_t team = int64_t{1} << team_log2(vectors_of(channels(), vector()));
    return num_partitions(desc().rows, desc().heads * team);
  }
  static int32_t team_log2(int64_t vectors) {
    return std::min(log2_up(vectors), log2_up(kThreads));
  }
  static int64_t team_blocks(const Rwkv7& p, int64_t rows) {
    return vectors_of(rows * p.heads, kThreads >> p.team_log2);
  }

  /// Cuts a head among a team; whether it reads vectors.
  bool cut(Rwkv7* p) const {
    bool vectors = channels() <= kThreads * vector() && in_vectors({}, {channels()});
    for (size_t i = 0; i < num_inputs(); ++i)
      vectors = vectors && in_vectors({p->in[i], p->d_in[i]}, {});
    for (size_t i = 0; i < num_outputs(); ++i)
      vectors = vectors && in_vectors({p->out[i]}, {});
    for (size_t i = 0; i < num_parameters(); ++i)
      vectors = vectors && in_vectors({{const_cast<void*>(p->parameter[i]), 0}}, {});
    p->vectors = static_cast<int32_t>(vectors ? channels() / vector() : channels());
    p->team_log2 = team_log2(p->vectors);
    return vectors;
  }

  Rwkv7 describe(const ModuleTensors& t,
                 const std::array<TensorView, kMaxModuleOutputs>& outputs) const {
    Rwkv7 p;
    for (size_t i = 0; i < num_inputs(); ++i)
      p.in[i] = matrix_of(t.in[i]);
    for (size_t i = 0; i < num_parameters(); ++i)
      p.parameter[i] = t.in[num_inputs() + i].data;
    for (size_t i = 0; i < num_outputs(); ++i)
      p.out[i] = matrix_of(outputs[i]);
    p.rows = static_cast<int32_t>(desc().rows);
    p.heads = static_cast<int32_t>(desc().heads);
    p.channels = static_cast<int32_t>(channels());
    p.eps = desc().eps;
    return p;
  }
};

}  // namespace

Made make_rwkv7(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<Rwkv7Module>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
