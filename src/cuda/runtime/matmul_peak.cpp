// SPDX-License-Identifier: MIT
// What a dense bf16 matrix product reaches through cuBLASLt.
#include "cuda/runtime/matmul_peak.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cublasLt.h>

#include "cuda/runtime/library.h"

namespace fla::cuda {
namespace {

constexpr uint64_t kSize = 8192;
constexpr size_t kMatrixBytes = kSize * kSize * sizeof(uint16_t);
constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kSamples = 15;

/// The functions that are called, from a library found at run time.
class Api {
 public:
  explicit Api(Library opened) : library_(std::move(opened)) {
    load("cublasLtGetVersion", &version);
    load("cublasLtCreate", &create);
    load("cublasLtDestroy", &destroy);
    load("cublasLtMatmulDescCreate", &desc_create);
    load("cublasLtMatmulDescSetAttribute", &desc_set);
    load("cublasLtMatmulDescDestroy", &desc_destroy);
    load("cublasLtMatrixLayoutCreate", &layout_create);
    load("cublasLtMatrixLayoutDestroy", &layout_destroy);
    load("cublasLtMatmulPreferenceCreate", &preference_create);
    load("cublasLtMatmulPreferenceSetAttribute", &preference_set);
    load("cublasLtMatmulPreferenceDestroy", &preference_destroy);
    load("cublasLtMatmulAlgoGetHeuristic", &heuristic);
    load("cublasLtMatmul", &matmul);
  }
  bool complete() const { return complete_; }

  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;

 private:
  template <class Function>
  void load(const char* name, Function** function) {
    *function = library_.function<Function>(name);
    complete_ = complete_ && *function != nullptr;
  }

  Library library_;
  bool complete_ = true;
};

Status refused(std::string_view call, cublasStatus_t status) {
  return {Code::kCuda, std::string(call) + " answered " + std::to_string(static_cast<int>(status))};
}

/// A square product C = A^T B: the operands as K-major as the tensor cores like them.
class Product {
 public:
  explicit Product(const Api& api) : api_(api) {}
  ~Product() {
    if (preference_ != nullptr)
      api_.preference_destroy(preference_);
    if (layout_ != nullptr)
      api_.layout_destroy(layout_);
    if (desc_ != nullptr)
      api_.desc_destroy(desc_);
    if (handle_ != nullptr)
      api_.destroy(handle_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  Status prepare() {
    const cublasOperation_t transpose = CUBLAS_OP_T;
    for (const auto& step : std::initializer_list<std::function<cublasStatus_t()>>{
             [&] { return api_.create(&handle_); },
             [&] { return api_.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F); },
             [&] {
               return api_.desc_set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                    sizeof(transpose));
             },
             [&] { return api_.layout_create(&layout_, CUDA_R_16BF, kSize, kSize, kSize); },
             [&] { return api_.preference_create(&preference_); },
             [&] {
               return api_.preference_set(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                          &kWorkspaceBytes, sizeof(kWorkspaceBytes));
             }}) {
      if (const cublasStatus_t status = step(); status != CUBLAS_STATUS_SUCCESS)
        return refused("preparing a product", status);
    }
    int found = 0;
    const cublasStatus_t status = api_.heuristic(handle_, desc_, layout_, layout_, layout_, layout_,
                                                 preference_, 1, &algorithm_, &found);
    if (status == CUBLAS_STATUS_SUCCESS && found == 1)
      return allocate();
    return refused("cublasLtMatmulAlgoGetHeuristic", status);
  }

  Status run(Stream stream) const {
    const float one = 1;
    const float zero = 0;
    const cublasStatus_t status =
        api_.matmul(handle_, desc_, &one, a_.data(), layout_, b_.data(), layout_, &zero, c_.data(),
                    layout_, c_.data(), layout_, &algorithm_.algo, workspace_.data(),
                    kWorkspaceBytes, static_cast<cudaStream_t>(stream.handle()));
    return status == CUBLAS_STATUS_SUCCESS ? Status() : refused("cublasLtMatmul", status);
  }

 private:
  Status allocate() {
    for (const auto& [buffer, bytes] :
         {std::pair(&a_, kMatrixBytes), std::pair(&b_, kMatrixBytes), std::pair(&c_, kMatrixBytes),
          std::pair(&workspace_, kWorkspaceBytes)}) {
      Result<DeviceBuffer> made = DeviceBuffer::create(bytes);
      if (!made.ok())
        return made.status();
      *buffer = std::move(made.value());
    }
    // Random signs, mantissas and two exponents: a product of zeros draws less power and runs
    // faster than any real one.
    std::vector<uint16_t> values(kSize * kSize);
    uint32_t state = 1;
    for (uint16_t& value : values) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<uint16_t>((state >> 16 & 0x80ffU) | 0x3f00U);
    }
    Status status = a_.upload(values.data(), kMatrixBytes);
    if (status.ok()) {
      std::reverse(values.begin(), values.end());
      status = b_.upload(values.data(), kMatrixBytes);
    }
    return status;
  }

  const Api& api_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t algorithm_{};
  DeviceBuffer a_;
  DeviceBuffer b_;
  DeviceBuffer c_;
  DeviceBuffer workspace_;
};

}  // namespace

Result<MatmulPeak> measure_matmul_peak(GpuTimer* timer, const std::string& lib_dir) {
  Result<Library> library = Library::open({"libcublasLt.so.13", "libcublasLt.so.12"}, lib_dir);
  if (!library.ok())
    return library.status();
  const Api api(std::move(library.value()));
  if (!api.complete())
    return Status(Code::kIo, "the libcublasLt that was found lacks a function that is needed");
  Product product(api);
  Status status = product.prepare();
  if (!status.ok())
    return status;
  std::vector<double> seconds;
  for (int i = 0; i < kSamples; ++i) {
    const Result<double> sample = timer->flushed([&] { return product.run(timer->stream()); });
    if (!sample.ok())
      return sample.status();
    seconds.push_back(sample.value());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kSamples / 2, seconds.end());
  const size_t version = api.version();  // 130100 or, of the older numbering, 120803
  return MatmulPeak{2.0 * kSize * kSize * kSize / seconds[kSamples / 2],
                    "cuBLASLt " + std::to_string(version / 10000) + "." +
                        std::to_string(version % 10000 / 100) + "." +
                        std::to_string(version % 100)};
}

}  // namespace fla::cuda
