// SPDX-License-Identifier: MIT
// Products by cuBLASLt: its functions, found once a process, and the algorithm for each layout.
#include "cuda/runtime/cublas.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cublasLt.h>

#include "cuda/runtime/library.h"

namespace fla::cuda {
namespace {

/// The functions that are called, and a handle for each device.
class Api {
 public:
  explicit Api(Library opened) : library_(std::move(opened)) {
    load("cublasLtGetVersion", &version);
    load("cublasLtCreate", &create);
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

  std::map<int, cublasLtHandle_t> handles;  // by device

 private:
  template <class Function>
  void load(const char* name, Function** function) {
    *function = library_.function<Function>(name);
    complete_ = complete_ && *function != nullptr;
  }

  Library library_;
  bool complete_ = true;
};

/// Found once and kept to the end of the process: the driver may be gone before static objects are.
struct Found {
  std::mutex mutex;
  Api* api = nullptr;
};

Found& found() {
  static Found instance;
  return instance;
}

Status refused(std::string_view call, cublasStatus_t status) {
  return {Code::kCuda, std::string(call) + " answered " + std::to_string(static_cast<int>(status))};
}

struct Door {
  const Api* api = nullptr;
  cublasLtHandle_t handle = nullptr;
};

/// cuBLASLt's functions and its handle of `device`, which is the current one.
Result<Door> open_door(int device, const std::string& lib_dir) {
  Found& shared = found();
  const std::scoped_lock lock(shared.mutex);
  if (shared.api == nullptr) {
    Result<Library> library = Library::open({"libcublasLt.so.13", "libcublasLt.so.12"}, lib_dir);
    if (!library.ok())
      return library.status();
    auto api = std::make_unique<Api>(std::move(library.value()));
    if (!api->complete())
      return Status(Code::kIo, "the libcublasLt that was found lacks a function that is needed");
    shared.api = api.release();
  }
  cublasLtHandle_t& handle = shared.api->handles[device];
  if (handle == nullptr) {
    if (const cublasStatus_t status = shared.api->create(&handle); status != CUBLAS_STATUS_SUCCESS)
      return refused("cublasLtCreate", status);
  }
  return Door{shared.api, handle};
}

/// Owns one of cuBLASLt's objects.
template <class Object>
using Owned = std::unique_ptr<std::remove_pointer_t<Object>, cublasStatus_t (*)(Object)>;

template <class Object>
Owned<Object> owned(cublasStatus_t (*destroy)(Object)) {
  return Owned<Object>(nullptr, destroy);
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// The largest power of two up to 256 that divides the address.
uint32_t alignment_of(const void* data) {
  uint32_t alignment = 256;
  while (reinterpret_cast<uintptr_t>(data) % alignment != 0)
    alignment /= 2;
  return alignment;
}

/// What the choice of an algorithm depends on, of a, b, c and d.
struct LayoutKey {
  std::array<int64_t, 4> stride{};
  std::array<uint32_t, 4> alignment{};
  bool operator==(const LayoutKey&) const = default;
};

struct Variant {
  explicit Variant(const Api& api)
      : layout{owned<cublasLtMatrixLayout_t>(api.layout_destroy),
               owned<cublasLtMatrixLayout_t>(api.layout_destroy),
               owned<cublasLtMatrixLayout_t>(api.layout_destroy),
               owned<cublasLtMatrixLayout_t>(api.layout_destroy)} {}

  LayoutKey key;
  std::array<Owned<cublasLtMatrixLayout_t>, 4> layout;  // of a, b, c, d as LayoutKey has them
  cublasLtMatmulHeuristicResult_t algorithm{};
};

}  // namespace

/// cuBLASLt is column-major: it sees D^T = B^T A^T, with our B as its A.
struct Product::State {
  State(const ProductShape& wanted, Door opened, size_t bytes)
      : shape(wanted),
        door(opened),
        workspace_bytes(bytes),
        desc(owned<cublasLtMatmulDesc_t>(opened.api->desc_destroy)) {}

  ProductShape shape;
  Door door;
  size_t workspace_bytes;
  Owned<cublasLtMatmulDesc_t> desc;
  mutable std::mutex mutex;  // of all below, and of desc's pointer to the bias
  mutable std::vector<std::unique_ptr<Variant>> variants;

  /// Columns of our matrices a, b, c, d as they lie in memory: the least strides.
  std::array<int64_t, 4> widths() const {
    return {shape.transposed_a ? shape.rows : shape.inner,
            shape.transposed_b ? shape.inner : shape.columns, shape.columns, shape.columns};
  }
  std::array<int64_t, 4> heights() const {
    return {shape.transposed_a ? shape.inner : shape.rows,
            shape.transposed_b ? shape.columns : shape.inner, shape.rows, shape.rows};
  }

  LayoutKey contiguous_key() const { return {widths(), {256, 256, 256, 256}}; }

  LayoutKey key_of(const ProductCall& call) const {
    const ProductMatrix& c = call.c.data == nullptr ? call.d : call.c;
    const std::array<const ProductMatrix*, 4> matrices = {&call.a, &call.b, &c, &call.d};
    LayoutKey key;
    for (size_t i = 0; i < matrices.size(); ++i) {
      // A matrix of one row may come with any stride.
      key.stride[i] = std::max(matrices[i]->stride, widths()[i]);
      key.alignment[i] = alignment_of(matrices[i]->data);
    }
    if (shape.bias)  // read as vectors as wide as d's
      key.alignment[3] = std::min(key.alignment[3], alignment_of(call.bias));
    return key;
  }

  Status make_desc() {
    const cublasOperation_t a = shape.transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t b = shape.transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue =
        shape.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const Api& api = *door.api;
    cublasLtMatmulDesc_t made = nullptr;
    cublasStatus_t status = api.desc_create(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    desc.reset(made);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = api.desc_set(made, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof(a));
    if (status == CUBLAS_STATUS_SUCCESS)
      status = api.desc_set(made, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof(b));
    if (status == CUBLAS_STATUS_SUCCESS)
      status = api.desc_set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    return status == CUBLAS_STATUS_SUCCESS ? Status() : refused("preparing a product", status);
  }

  /// The variant for `key`, which is made when it comes for the first time.
  Result<const Variant*> variant_for(const LayoutKey& key) const {
    for (const std::unique_ptr<Variant>& variant : variants) {
      if (variant->key == key)
        return variant.get();
    }
    auto variant = std::make_unique<Variant>(*door.api);
    variant->key = key;
    for (size_t i = 0; i < key.stride.size(); ++i) {
      cublasLtMatrixLayout_t layout = nullptr;
      const cublasStatus_t status = door.api->layout_create(
          &layout, type_of(i < 2 ? shape.operands : shape.result),
          static_cast<uint64_t>(widths()[i]), static_cast<uint64_t>(heights()[i]), key.stride[i]);
      variant->layout[i].reset(layout);
      if (status != CUBLAS_STATUS_SUCCESS)
        return refused("cublasLtMatrixLayoutCreate", status);
    }
    Status status = pick(variant.get());
    if (!status.ok())
      return status;
    variants.push_back(std::move(variant));
    return variants.back().get();
  }

  Status pick(Variant* variant) const {
    const Api& api = *door.api;
    auto preference = owned<cublasLtMatmulPreference_t>(api.preference_destroy);
    cublasLtMatmulPreference_t made = nullptr;
    cublasStatus_t status = api.preference_create(&made);
    preference.reset(made);
    // Partial sums meet in fp32 and in a fixed order, or there are none.
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const std::array<uint32_t, 4>& alignment = variant->key.alignment;
    const struct {
      cublasLtMatmulPreferenceAttributes_t name;
      const void* value;
      size_t bytes;
    } attributes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof(workspace_bytes)},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment[1], sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment[0], sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment[2], sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment[3], sizeof(uint32_t)}};
    for (const auto& attribute : attributes) {
      if (status == CUBLAS_STATUS_SUCCESS)
        status = api.preference_set(made, attribute.name, attribute.value, attribute.bytes);
    }
    if (status != CUBLAS_STATUS_SUCCESS)
      return refused("preparing a product", status);
    int count = 0;
    const auto& layout = variant->layout;
    status = api.heuristic(door.handle, desc.get(), layout[1].get(), layout[0].get(),
                           layout[2].get(), layout[3].get(), made, 1, &variant->algorithm, &count);
    if (status == CUBLAS_STATUS_SUCCESS && count == 1)
      return {};
    return refused("cublasLtMatmulAlgoGetHeuristic", status);
  }
};

Product::Product(std::unique_ptr<State> state) : state_(std::move(state)) {}
Product::~Product() = default;

Result<std::unique_ptr<Product>> Product::create(const ProductShape& shape, int device,
                                                 size_t workspace_bytes,
                                                 const std::string& lib_dir) {
  const Result<Door> door = open_door(device, lib_dir);
  if (!door.ok())
    return door.status();
  auto state = std::make_unique<State>(shape, door.value(), workspace_bytes);
  Status status = state->make_desc();
  if (!status.ok())
    return status;
  const Result<const Variant*> variant = state->variant_for(state->contiguous_key());
  if (!variant.ok())
    return variant.status();
  return std::unique_ptr<Product>(new Product(std::move(state)));
}

Status Product::run(const ProductCall& call, Workspace workspace, Stream stream) const {
  const State& state = *state_;
  const Api& api = *state.door.api;
  const std::scoped_lock lock(state.mutex);
  if (state.shape.bias) {
    const cublasStatus_t status = api.desc_set(state.desc.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                               &call.bias, sizeof(call.bias));
    if (status != CUBLAS_STATUS_SUCCESS)
      return refused("cublasLtMatmulDescSetAttribute", status);
  }
  const Result<const Variant*> found_variant = state.variant_for(state.key_of(call));
  if (!found_variant.ok())
    return found_variant.status();
  const Variant& variant = *found_variant.value();
  const bool adds = call.c.data != nullptr;
  const float alpha = 1.0F;
  const float beta = adds ? 1.0F : 0.0F;
  const auto& layout = variant.layout;
  const cublasStatus_t status = api.matmul(
      state.door.handle, state.desc.get(), &alpha, call.b.data, layout[1].get(), call.a.data,
      layout[0].get(), &beta, adds ? call.c.data : call.d.data, layout[2].get(),
      const_cast<void*>(call.d.data), layout[3].get(), &variant.algorithm.algo, workspace.data,
      std::min(workspace.bytes, state.workspace_bytes), static_cast<cudaStream_t>(stream.handle()));
  return status == CUBLAS_STATUS_SUCCESS ? Status() : refused("cublasLtMatmul", status);
}

std::string cublas_version() {
  Found& shared = found();
  const std::scoped_lock lock(shared.mutex);
  if (shared.api == nullptr)
    return "";
  const size_t version = shared.api->version();  // 130100 or, of the older numbering, 120803
  return "cuBLASLt " + std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100) + "." + std::to_string(version % 100);
}

}  // namespace fla::cuda
