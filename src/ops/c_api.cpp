// SPDX-License-Identifier: MIT
// The C ABI: convert, call, catch all.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "fla/fla.h"
#include "fla/plan.h"
#include "ops/messages.h"
#include "ops/registry.h"

struct fla_plan {
  fla::Plan plan;
  const fla::ops::OpRow* row;
};

namespace {

using fla::Code;
using fla::OpDesc;
using fla::Result;
using fla::Status;
using fla::TensorSet;
using fla::TensorView;
using fla::ops::OpRow;
using fla::ops::SlotSpec;

static_assert(FLA_ABI_VERSION == 1 && sizeof(fla_desc) == 168 && sizeof(fla_context) == 40 &&
                  sizeof(fla_tensor) == 120,
              "a layout changed: raise FLA_ABI_VERSION");
static_assert(FLA_MAX_RANK == fla::kMaxRank);

std::string& last_message() {
  thread_local std::string message = "";
  return message;
}

int32_t report(const Status& status) {
  if (!status.ok())
    last_message() = status.message();
  return static_cast<int32_t>(status.code());
}

/// Runs `body`, which returns a Status; nothing leaves it as an exception.
template <class Body>
int32_t guarded(Body&& body) noexcept {
  try {
    return report(body());
  } catch (const std::exception& error) {
    try {
      last_message() = error.what();
    } catch (...) {
      // No memory for the text; the code still tells.
    }
    return FLA_INTERNAL;
  } catch (...) {
    return FLA_INTERNAL;
  }
}

Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

Status check_struct_size(std::string_view name, uint64_t got, uint64_t expected) {
  if (got == expected)
    return {};
  return invalid(fmt::format("{}.struct_size is {}, expected {} (ABI version {})", name, got,
                             expected, FLA_ABI_VERSION));
}

Status unknown_name(const OpRow& row, std::string_view what, std::string_view name,
                    const std::vector<std::string>& known) {
  const std::string_view reason = fla::ops::unsupported_reason(name);
  if (!reason.empty())
    return invalid(fmt::format("{}: {} is not supported: {}", row.name, name, reason));
  const std::vector<std::string_view> views(known.begin(), known.end());
  return invalid(fmt::format("{}: unknown {} '{}', {}", row.name, what, name,
                             fla::ops::did_you_mean(name, views)));
}

/// The names separated by spaces in `text`, as slots of `row`.
Status parse_given(const OpRow& row, std::string_view text, fla::SlotSet* given) {
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty())
      return {};
    const std::string_view name = text.substr(0, text.find(' '));
    text.remove_prefix(name.size());
    const auto spec = std::find_if(row.slots.begin(), row.slots.end(),
                                   [name](const SlotSpec& it) { return it.name == name; });
    if (spec != row.slots.end()) {
      given->insert(spec->slot);
      continue;
    }
    std::vector<std::string> known;
    for (const SlotSpec& it : row.slots) {
      if (it.optional)
        known.emplace_back(it.name);
    }
    return unknown_name(row, "name in given", name, known);
  }
}

Result<OpDesc> read_desc(const OpRow& row, const fla_desc& from) {
  Status status = check_struct_size("fla_desc", from.struct_size, sizeof(fla_desc));
  if (!status.ok())
    return status;
  OpDesc desc;
  desc.pass = static_cast<fla::Pass>(from.pass);
  desc.form = static_cast<fla::Form>(from.form);
  desc.dtype = static_cast<fla::DType>(from.dtype);
  desc.gate_input = static_cast<fla::GateInput>(from.gate_input);
  desc.B = from.B;
  desc.T = from.T;
  desc.H = from.H;
  desc.HV = from.HV;
  desc.K = from.K;
  desc.V = from.V;
  desc.N = from.N;
  desc.M = from.M;
  desc.num_householder = from.num_householder;
  desc.num_state_slots = from.num_state_slots;
  desc.layer_idx = from.layer_idx;
  desc.num_layers = from.num_layers;
  if (!std::isnan(from.scale))
    desc.scale = static_cast<float>(from.scale);
  desc.lower_bound = static_cast<float>(from.lower_bound);
  desc.l2norm_qk = from.l2norm_qk != 0;
  desc.beta_sigmoid = from.beta_sigmoid != 0;
  desc.allow_neg_eigval = from.allow_neg_eigval != 0;
  desc.safe_gate = from.safe_gate != 0;
  desc.state_v_first = from.state_v_first != 0;
  desc.normalize = from.normalize != 0;
  if (from.given != nullptr)
    status = parse_given(row, from.given, &desc.given);
  if (!status.ok())
    return status;
  return desc;
}

Result<fla::Context> read_context(const fla_context* from) {
  fla::Context context;
  if (from == nullptr)
    return context;
  Status status = check_struct_size("fla_context", from->struct_size, sizeof(fla_context));
  if (!status.ok())
    return status;
  if (from->backend < FLA_BACKEND_AUTO || from->backend > FLA_BACKEND_CUDA) {
    return invalid(fmt::format("fla_context.backend is {}, expected 0 to 3", from->backend));
  }
  context.backend = static_cast<fla::Backend>(from->backend);
  context.device = {static_cast<fla::DeviceType>(from->device_type), from->device_index};
  context.num_threads = from->num_threads;
  context.check_inputs = from->check_inputs != 0;
  if (from->cpu_target != nullptr)
    context.cpu_target = from->cpu_target;
  return context;
}

/// A tensor name as a slot's value or gradient. Compares without building strings, since every run
/// does it.
struct Resolved {
  const SlotSpec* spec = nullptr;
  bool is_grad = false;
};
Resolved resolve(const OpRow& row, std::string_view name) {
  for (const SlotSpec& spec : row.slots) {
    if (spec.name == name)
      return {&spec, false};
  }
  if (!name.starts_with('d'))
    return {};
  for (const SlotSpec& spec : row.slots) {
    if (fla::ops::is_grad_name(spec, name))
      return {&spec, true};
  }
  return {};
}

Status unknown_tensor(const OpRow& row, std::string_view name) {
  std::vector<std::string> known;
  for (const SlotSpec& spec : row.slots) {
    known.emplace_back(spec.name);
    if (spec.grad || fla::ops::is_output(spec.slot))
      known.push_back(fla::ops::grad_name(spec));
  }
  return unknown_name(row, "tensor", name, known);
}

Status read_tensor(const OpRow& row, const fla_tensor& from, TensorSet* tensors) {
  Status status = check_struct_size("fla_tensor", from.struct_size, sizeof(fla_tensor));
  if (!status.ok())
    return status;
  if (from.name == nullptr)
    return invalid(fmt::format("{}: a tensor's name is null", row.name));
  const Resolved target = resolve(row, from.name);
  if (target.spec == nullptr)
    return unknown_tensor(row, from.name);
  if (from.data == nullptr)
    return {};
  if (from.rank < 0 || from.rank > FLA_MAX_RANK) {
    return invalid(fmt::format("{}: {} has rank {}, expected 0 to {}", row.name, from.name,
                               from.rank, FLA_MAX_RANK));
  }
  TensorView& view =
      target.is_grad ? tensors->grad(target.spec->slot) : (*tensors)[target.spec->slot];
  if (view.data != nullptr)
    return invalid(fmt::format("{}: {} is passed twice", row.name, from.name));
  view.data = from.data;
  view.dtype = static_cast<fla::DType>(from.dtype);
  view.device = {static_cast<fla::DeviceType>(from.device_type), from.device_index};
  view.rank = from.rank;
  std::copy(std::begin(from.shape), std::end(from.shape), view.shape.begin());
  std::copy(std::begin(from.stride), std::end(from.stride), view.stride.begin());
  return {};
}

Status create(const char* op, const fla_desc* desc, const fla_context* context, fla_plan** plan) {
  if (plan == nullptr)
    return invalid("fla_plan_create: plan is null");
  *plan = nullptr;
  if (op == nullptr)
    return invalid("fla_plan_create: op is null");
  if (desc == nullptr)
    return invalid("fla_plan_create: desc is null");
  const Result<fla::ops::Named> named = fla::ops::find_op(op);
  if (!named.ok())
    return named.status();
  const OpRow& row = *named.value().row;
  const Result<OpDesc> read = read_desc(row, *desc);
  if (!read.ok())
    return read.status();
  const Result<fla::Context> where = read_context(context);
  if (!where.ok())
    return where.status();
  Result<fla::Plan> made = fla::make_plan(op, read.value(), where.value());
  if (!made.ok())
    return made.status();
  *plan = new fla_plan{std::move(made.value()), &row};
  return {};
}

Status run(const fla_plan* plan, const fla_tensor* tensors, uint64_t count,
           fla::Workspace workspace, void* stream) {
  if (plan == nullptr)
    return invalid("fla_plan_run: plan is null");
  if (tensors == nullptr && count > 0)
    return invalid("fla_plan_run: tensors is null");
  TensorSet set;
  for (uint64_t i = 0; i < count; ++i) {
    Status status = read_tensor(*plan->row, tensors[i], &set);
    if (!status.ok())
      return status;
  }
  return plan->plan.run(set, workspace, fla::Stream(stream));
}

}  // namespace

extern "C" {

int32_t fla_abi_version(void) {
  return FLA_ABI_VERSION;
}

const char* fla_version(void) {
  return FLA_VERSION_TEXT;
}

uint64_t fla_sizeof(int32_t id) {
  switch (id) {
    case FLA_SIZEOF_DESC:
      return sizeof(fla_desc);
    case FLA_SIZEOF_CONTEXT:
      return sizeof(fla_context);
    case FLA_SIZEOF_TENSOR:
      return sizeof(fla_tensor);
    default:
      return 0;
  }
}

const char* fla_last_message(void) {
  return last_message().c_str();
}

int32_t fla_num_ops(void) {
  return static_cast<int32_t>(fla::ops::registry().size());
}

const char* fla_op_name(int32_t index) {
  if (index < 0 || index >= fla_num_ops())
    return nullptr;
  return fla::ops::registry()[static_cast<size_t>(index)]
      .name.data();  // a literal, so it ends in NUL
}

void fla_desc_init(fla_desc* desc) {
  if (desc == nullptr)
    return;
  *desc = fla_desc{};
  desc->struct_size = sizeof(fla_desc);
  desc->B = 1;
  desc->H = 1;
  desc->num_householder = 1;
  desc->num_layers = 1;
  desc->scale = std::numeric_limits<double>::quiet_NaN();
}

void fla_context_init(fla_context* context) {
  if (context == nullptr)
    return;
  *context = fla_context{};
  context->struct_size = sizeof(fla_context);
}

int32_t fla_plan_create(const char* op, const fla_desc* desc, const fla_context* context,
                        fla_plan** plan) {
  return guarded([&] { return create(op, desc, context, plan); });
}

uint64_t fla_plan_workspace_bytes(const fla_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

const char* fla_plan_name(const fla_plan* plan) {
  return plan == nullptr ? nullptr
                         : plan->plan.name().data();  // of a std::string, so it ends in NUL
}

int32_t fla_plan_run(const fla_plan* plan, const fla_tensor* tensors, uint64_t count,
                     void* workspace, uint64_t workspace_bytes, void* stream) {
  return guarded([&] { return run(plan, tensors, count, {workspace, workspace_bytes}, stream); });
}

void fla_plan_destroy(fla_plan* plan) {
  delete plan;
}

}  // extern "C"
