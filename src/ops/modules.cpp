// SPDX-License-Identifier: MIT
// Checks of module calls, and the way to the backends.
#include "ops/modules.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "cpu/modules.h"
#include "cuda/modules/launch.h"
#include "ref/modules.h"

namespace fla::ops {
namespace {

Status refuse(const ModuleRow& row, std::string_view field, std::string_view got,
              std::string_view expected) {
  return {Code::kInvalidArgument,
          fmt::format("{}: {} is {}, expected {}", row.name, field, got, expected)};
}

Status check_counts(const ModuleDesc& d, const ModuleRow& row) {
  const Module m = d.module;
  const bool has_out =
      m == Module::kLinear || m == Module::kEmbedding || m == Module::kLinearCrossEntropy;
  const bool has_taps = m == Module::kShortConv || m == Module::kTokenShift;
  const struct {
    std::string_view name;
    int64_t value;
    int64_t least;
  } counts[] = {{"rows", d.rows, 1},
                {"width", d.width, 1},
                {"heads", d.heads, 1},
                {"kv_heads", d.kv_heads, 0},
                {"batch", d.batch, 1},
                {"sequences", d.sequences, 0},
                {"window", d.window, 0},
                {"out", d.out, has_out ? 1 : 0},
                {"taps", d.taps, has_taps ? 1 : 0}};
  for (const auto& count : counts) {
    if (count.value < count.least)
      return refuse(row, count.name, fmt::format("{}", count.value),
                    fmt::format("{} or more", count.least));
  }
  return {};
}

bool gives(const ModuleDesc& d, const ModuleRow& row, std::string_view input) {
  for (size_t i = 0; i < row.in.size(); ++i) {
    if (row.in[i].name == input)
      return d.has(i);
  }
  return false;
}

Status check_sequences(const ModuleDesc& d, const ModuleRow& row) {
  const bool knows = std::any_of(row.in.begin(), row.in.end(),
                                 [](const ModuleSlot& in) { return in.name == "cu_seqlens"; });
  if (knows && gives(d, row, "cu_seqlens") != (d.sequences > 0))
    return refuse(row, "sequences", fmt::format("{}", d.sequences),
                  d.sequences > 0 ? "0 without cu_seqlens" : "1 or more with cu_seqlens");
  if (d.sequences > 0 && d.batch != 1)
    return refuse(row, "batch", fmt::format("{}", d.batch), "1 for packed sequences");
  if (d.rows % d.batch != 0)
    return refuse(row, "rows", fmt::format("{}", d.rows),
                  fmt::format("a multiple of batch = {}", d.batch));
  if (d.module != Module::kAttention)
    return {};
  const bool cached = d.cache_length > 0;
  for (const std::string_view input : {"positions", "k_cache", "v_cache"}) {
    if (gives(d, row, input) != cached)
      return refuse(row, input, cached ? "not given" : "given",
                    cached ? "it where cache_length > 0" : "cache_length of 1 or more with it");
  }
  return {};
}

Status check_module(const ModuleDesc& d) {
  const ModuleRow& row = module_row(d.module);
  if (Status status = check_counts(d, row); !status.ok())
    return status;
  if (d.width % d.heads != 0)
    return refuse(row, "width", fmt::format("{}", d.width),
                  fmt::format("a multiple of heads = {}", d.heads));
  if (d.heads % d.key_heads() != 0) {
    return refuse(row, "kv_heads", fmt::format("{}", d.kv_heads),
                  fmt::format("a divisor of heads = {}", d.heads));
  }
  if (d.module == Module::kRotary && d.width / d.heads % 2 != 0)
    return refuse(row, "width / heads", fmt::format("{}", d.width / d.heads), "an even number");
  return check_sequences(d, row);
}

DType dtype_of(const ModuleDesc& d, ModuleRole role) {
  switch (role) {
    case ModuleRole::kActivation:
    case ModuleRole::kState:
      return d.dtype;
    case ModuleRole::kParameter:
      return d.param_dtype;
    case ModuleRole::kSum:
      return d.dtype == DType::kFp64 ? DType::kFp64 : DType::kFp32;
    case ModuleRole::kIndex:
      break;
  }
  return DType::kInt32;
}

/// A matrix of the slot's extents; only activations may have gaps between rows.
Status check_view(const ModuleDesc& d, const ModuleRow& row, const ModuleSlot& slot,
                  const TensorView& view, std::string_view prefix) {
  const std::string name = fmt::format("{}{}", prefix, slot.name);
  if (view.data == nullptr)
    return refuse(row, name, "not given", "it");
  if (view.dtype != dtype_of(d, slot.role))
    return refuse(row, name, dtype_name(view.dtype), dtype_name(dtype_of(d, slot.role)));
  const int64_t r = slot.rows(d);
  const int64_t c = slot.columns(d);
  const bool apart = slot.role == ModuleRole::kActivation;
  const bool rows_fit = r <= 1 || view.stride[0] == c || (apart && view.stride[0] > c);
  if (view.rank == 2 && view.shape[0] == r && view.shape[1] == c && view.stride[1] == 1 && rows_fit)
    return {};
  return refuse(
      row, name,
      fmt::format("[{}] (rank {}) with strides [{}]",
                  fmt::join(view.shape.begin(), view.shape.begin() + view.rank, ","), view.rank,
                  fmt::join(view.stride.begin(), view.stride.begin() + view.rank, ",")),
      fmt::format("[{},{}], {}", r, c, apart ? "columns contiguous" : "contiguous"));
}

Status check_gradient(const ModuleDesc& desc, const ModuleRow& row, size_t input,
                      const ModuleTensors& tensors) {
  const std::string name = fmt::format("d_{}", row.in[input].name);
  if ((row.grads >> input & 1U) == 0)
    return refuse(row, name, "given", "null: it has no gradient");
  if ((tensors.accumulate >> input & 1U) != 0 && (row.accumulates >> input & 1U) == 0)
    return refuse(row, name, "to be added to", "to be written");
  return check_view(desc, row, row.in[input], tensors.d_in[input], "d_");
}

Backend backend_of(const Context& context) {
  if (context.backend != Backend::kAuto)
    return context.backend;
  return context.device.type == DeviceType::kCuda ? Backend::kCuda : Backend::kCpu;
}

}  // namespace

double module_flops(const ModuleDesc& d, Pass pass) {
  const double passes = pass == Pass::kForward ? 1 : 2;
  const double rows = static_cast<double>(d.rows);
  const double width = static_cast<double>(d.width);
  switch (d.module) {
    case Module::kLinear:
      return passes * 2 * rows * width * static_cast<double>(d.out);
    case Module::kLinearCrossEntropy:  // the backward pass computes the logits again
      return (pass == Pass::kForward ? 1 : 3) * 2 * rows * width * static_cast<double>(d.out);
    case Module::kAttention:  // half of T^2, two products forward, five backward
      return (pass == Pass::kForward ? 2 : 5) * rows * rows / static_cast<double>(d.batch) * width;
    default:
      return 0;
  }
}

Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& desc, const Context& context) {
  Status status = check_module(desc);
  if (!status.ok())
    return status;
  switch (backend_of(context)) {
    case Backend::kRef:
      return ref::plan_module(desc);
    case Backend::kCuda:
      return cuda::modules::plan_module(desc, context);
    default:
      return cpu::plan_module(desc, context);
  }
}

Status check_module_tensors(const ModuleDesc& desc, Pass pass, const ModuleTensors& tensors) {
  const ModuleRow& row = module_row(desc.module);
  const bool backward = pass == Pass::kBackward;
  const auto read = [&](uint32_t mask, size_t i) { return !backward || (mask >> i & 1U) != 0; };
  for (size_t i = 0; i < row.in.size(); ++i) {
    if (row.in[i].optional && !desc.has(i))
      continue;
    Status status;
    if (read(row.reads_in, i))
      status = check_view(desc, row, row.in[i], tensors.in[i], "");
    if (status.ok() && backward && tensors.d_in[i].data != nullptr)
      status = check_gradient(desc, row, i, tensors);
    if (!status.ok())
      return status;
  }
  for (size_t i = 0; i < row.out.size(); ++i) {
    if (row.out[i].optional && !desc.has_out(i))
      continue;
    const bool differentiable =
        row.out[i].role != ModuleRole::kSum && row.out[i].role != ModuleRole::kState;
    Status status;
    if (read(row.reads_out, i))
      status = check_view(desc, row, row.out[i], tensors.out[i], "");
    if (status.ok() && backward && differentiable)
      status = check_view(desc, row, row.out[i], tensors.d_out[i], "d_");
    if (!status.ok())
      return status;
  }
  return {};
}

Status adamw(const AdamWStep& step, const Context& context, Stream stream) {
  switch (backend_of(context)) {
    case Backend::kRef:
      return ref::adamw(step);
    case Backend::kCuda:
      return cuda::modules::adamw(step, context, stream);
    default:
      return cpu::adamw(step, context);
  }
}

size_t grad_norm_bytes(int64_t count) {
  return cuda::modules::grad_norm_bytes(count);
}

Status grad_norm(const TensorView& grad, const TensorView& norm, Workspace workspace,
                 const Context& context, Stream stream) {
  switch (backend_of(context)) {
    case Backend::kRef:
      return ref::grad_norm(grad, norm);
    case Backend::kCuda:
      return cuda::modules::grad_norm(grad, norm, workspace, context, stream);
    default:
      return cpu::grad_norm(grad, norm, context);
  }
}

}  // namespace fla::ops
