// SPDX-License-Identifier: MIT
// CudaModule: what the plans of modules share, and one maker for each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "core/module.h"
#include "cuda/device/kernel.h"
#include "cuda/modules/params.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "fla/tensor.h"

namespace fla::cuda::modules {

/// Cuts scratch memory into aligned arrays, in the same order for sizes and for addresses.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(int64_t count) {
    const size_t at = bytes_;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 256;
  char* base_;
  size_t bytes_ = 0;
};

class CudaModule : public ModulePlan {
 public:
  CudaModule(const ModuleDesc& desc, std::string call, int device)
      : desc_(desc), call_(std::move(call)), device_(device) {}

  /// Loads kernels and plans products, on the device. Errors: as plan_module.
  virtual Status prepare() = 0;
  size_t workspace_bytes(Pass /*pass*/) const override { return 0; }
  Status run(Pass pass, const ModuleTensors& tensors, Workspace workspace,
             Stream stream) const final;

 protected:
  virtual Status forward(const ModuleTensors& t, Workspace workspace, Stream stream) const = 0;
  virtual Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const = 0;

  const ModuleDesc& desc() const { return desc_; }
  const std::string& call() const { return call_; }
  int device() const { return device_; }
  int64_t vector() const { return kVectorBytes / static_cast<int64_t>(dtype_bytes(desc_.dtype)); }

  Status load(std::initializer_list<Kernel> kernels) const;
  Status launch(const Kernel& kernel, int64_t blocks, const void* params, Stream stream) const;
  /// Ends a sum: `out`, if it is wanted, = the sum of partial [count, columns].
  Status finish(const float* partial, int64_t count, int64_t columns, const TensorView& out,
                bool accumulate, Stream stream) const;
  /// Sets a parameter's gradient to zero.
  static Status clear(const TensorView& view, Stream stream);
  /// Whether all matrices that are given can be read 16 bytes at a time, from each of `columns` on.
  bool in_vectors(std::initializer_list<Matrix> matrices,
                  std::initializer_list<int64_t> columns) const;
  /// Channels from `column` on.
  Matrix part(const Matrix& matrix, int64_t column) const;
  Packing packing(const TensorView& cu_seqlens) const;

 private:
  ModuleDesc desc_;
  std::string call_;
  int device_;
};

inline bool adds(const ModuleTensors& t, size_t input) {
  return (t.accumulate >> input & 1U) != 0;
}

/// The rows of a view; a single row has no stride.
Matrix matrix_of(const TensorView& view);
/// A parameter's channels, the same for all rows.
Matrix every_row(const TensorView& view);

/// A channel's elements in vectors, or single ones.
inline int64_t vectors_of(int64_t channels, int64_t vector) {
  return (channels + vector - 1) / vector;
}

using Made = std::unique_ptr<CudaModule>;
Made make_attention(const ModuleDesc& desc, std::string call, int device);
Made make_elementwise(const ModuleDesc& desc, std::string call, int device);
Made make_embedding(const ModuleDesc& desc, std::string call, int device);
Made make_linear(const ModuleDesc& desc, std::string call, int device);
Made make_linear_cross_entropy(const ModuleDesc& desc, std::string call, int device);
Made make_lower_bounds(const ModuleDesc& desc, std::string call, int device);
Made make_norm(const ModuleDesc& desc, std::string call, int device);
Made make_rotary(const ModuleDesc& desc, std::string call, int device);
Made make_rwkv7(const ModuleDesc& desc, std::string call, int device);
Made make_short_conv(const ModuleDesc& desc, std::string call, int device);
Made make_token_shift(const ModuleDesc& desc, std::string call, int device);

}  // namespace fla::cuda::modules
