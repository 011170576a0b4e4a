// SPDX-License-Identifier: MIT
// What the CPU modules share: a call with its rows of floats, threads over pieces that depend on
// the shape alone, sums over rows, and the scalar functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/module.h"
#include "cpu/flush_subnormals.h"
#include "cpu/product.h"
#include "fla/plan.h"
#include "fla/tensor.h"

namespace fla::cpu {

/// Rows of floats; null where a tensor is not given.
class Rows {
 public:
  Rows() = default;
  explicit Rows(const TensorView& view)
      : data_(static_cast<float*>(view.data)), stride_(view.stride[0]) {}
  Rows(float* data, int64_t stride) : data_(data), stride_(stride) {}

  explicit operator bool() const { return data_ != nullptr; }
  /// Row `r`, null where there are none.
  float* operator[](int64_t r) const { return data_ == nullptr ? nullptr : data_ + r * stride_; }
  float* data() const { return data_; }
  int64_t stride() const { return stride_; }

 private:
  float* data_ = nullptr;
  int64_t stride_ = 0;
};

/// One run of a module. Optional tensors that the descriptor does not give are null here.
struct ModuleRun {
  const ModuleDesc& desc;
  const ModuleTensors& tensors;
  float* scratch;
  int threads;
  Product product;

  Rows in(size_t slot) const { return Rows(tensors.in[slot]); }
  Rows optional_in(size_t slot) const { return desc.has(slot) ? in(slot) : Rows(); }
  Rows out(size_t slot) const { return Rows(tensors.out[slot]); }
  Rows optional_out(size_t slot) const { return desc.has_out(slot) ? out(slot) : Rows(); }
  Rows d_in(size_t slot) const { return Rows(tensors.d_in[slot]); }
  Rows d_out(size_t slot) const { return Rows(tensors.d_out[slot]); }
  bool adds(size_t slot) const { return (tensors.accumulate >> slot & 1U) != 0; }
};

/// body(i) for every i in [0, count), spread over threads.
template <class Body>
void parallel_for(int threads, int64_t count, const Body& body) {
  const int team = static_cast<int>(std::clamp<int64_t>(count, 1, threads));
#pragma omp parallel num_threads(team)
  {
    const FlushSubnormals mode;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < count; ++i)
      body(i);
  }
}

/// Rows in blocks that depend on their number alone, so that a sum over rows, made of the sums of
/// blocks, is the same at any number of threads.
struct RowBlocks {
  explicit RowBlocks(int64_t all_rows)
      : rows(all_rows),
        size(std::max<int64_t>(16, (all_rows + 63) / 64)),
        count((all_rows + size - 1) / size) {}

  int64_t begin(int64_t block) const { return block * size; }
  int64_t end(int64_t block) const { return std::min(rows, (block + 1) * size); }

  int64_t rows;
  int64_t size;
  int64_t count;
};

/// Threads for the rows of a call: a small one is done before a second thread wakes up.
inline int row_threads(const ModuleRun& run) {
  constexpr int64_t kElements = 4096;
  return static_cast<int>(
      std::min<int64_t>(run.threads, 1 + run.desc.rows * run.desc.width / kElements));
}

/// body(row) for every row.
template <class Body>
void for_each_row(const ModuleRun& run, const Body& body) {
  const RowBlocks blocks(run.desc.rows);
  parallel_for(row_threads(run), blocks.count, [&](int64_t block) {
    for (int64_t r = blocks.begin(block); r < blocks.end(block); ++r)
      body(r);
  });
}

/// body(row, sums) for every row, where `sums` are those of the row's block, `columns` zeros at
/// first. They lie in `partial`, sum_floats(rows, columns) floats.
template <class Body>
void for_each_row_with_sums(const ModuleRun& run, float* partial, int64_t columns,
                            const Body& body) {
  const RowBlocks blocks(run.desc.rows);
  parallel_for(row_threads(run), blocks.count, [&](int64_t block) {
    float* sums = partial + block * columns;
    std::fill_n(sums, columns, 0.0F);
    for (int64_t r = blocks.begin(block); r < blocks.end(block); ++r)
      body(r, sums);
  });
}
inline int64_t sum_floats(int64_t rows, int64_t columns) {
  return RowBlocks(rows).count * columns;
}

/// The gradient of parameter `slot`, element i of it the sum over blocks of column `column(i)`.
template <class Column>
void store_sums(const ModuleRun& run, size_t slot, int64_t count, const float* partial,
                int64_t columns, const Column& column) {
  float* to = run.d_in(slot).data();
  if (to == nullptr)
    return;
  const int64_t blocks = RowBlocks(run.desc.rows).count;
  for (int64_t i = 0; i < count; ++i) {
    double sum = run.adds(slot) ? static_cast<double>(to[i]) : 0.0;
    for (int64_t block = 0; block < blocks; ++block)
      sum += static_cast<double>(partial[block * columns + column(i)]);
    to[i] = static_cast<float>(sum);
  }
}

/// An element of a gradient, written or added; nothing where nobody asks for the gradient.
inline void put(float* row, bool add, int64_t c, float value) {
  if (row != nullptr)
    row[c] = add ? row[c] + value : value;
}

inline float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

inline float logistic(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

/// f(x) and f'(x).
struct Value {
  float f = 0;
  float slope = 0;
};

inline Value evaluate(Function function, float scale, float x) {
  switch (function) {
    case Function::kIdentity:
      break;
    case Function::kSilu: {
      const float s = logistic(x);
      return {x * s, s * (1 + x * (1 - s))};
    }
    case Function::kSigmoid: {
      const float s = logistic(x);
      return {scale * s, scale * s * (1 - s)};
    }
    case Function::kLogSigmoid:  // ln s(x) = min(x, 0) - ln(1 + e^-|x|), and 1 - s(x) = s(-x)
      return {scale * (std::fmin(x, 0.0F) - std::log1p(std::exp(-std::fabs(x)))),
              scale * logistic(-x)};
    case Function::kTanh: {
      const float y = std::tanh(x);
      return {y, 1 - y * y};
    }
    case Function::kReluSquared:
      return {std::fmax(x, 0.0F) * std::fmax(x, 0.0F), 2 * std::fmax(x, 0.0F)};
  }
  return {x, 1};
}

/// Both passes of a module, and the floats of scratch that each takes.
struct ModuleKernel {
  void (*forward)(const ModuleRun&);
  void (*backward)(const ModuleRun&);
  int64_t (*scratch_floats)(const ModuleDesc&, Pass);
  bool multiplies = false;  // needs find_product()
};
inline int64_t no_scratch(const ModuleDesc& /*d*/, Pass /*pass*/) {
  return 0;
}

extern const ModuleKernel kLinear, kEmbedding, kLinearCrossEntropy;                // dense.cpp
extern const ModuleKernel kRmsNorm, kLayerNorm;                                    // norm.cpp
extern const ModuleKernel kShortConv, kTokenShift, kRotary;                        // sequence.cpp
extern const ModuleKernel kAttention;                                              // attention.cpp
extern const ModuleKernel kSwiGlu, kPointwise, kAdd, kLerp;                        // pointwise.cpp
extern const ModuleKernel kHgrn2LowerBounds, kHgrn2Gate, kRwkv7Key, kRwkv7Output;  // families.cpp

}  // namespace fla::cpu
