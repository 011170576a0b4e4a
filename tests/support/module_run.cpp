// SPDX-License-Identifier: MIT
// Inputs of module cases, a call in guarded memory, and its comparison with ref.
#include <cmath>
#include <memory>
#include <string_view>
#include <utility>

#include "core/philox.h"
#include "support/module_case.h"
#include "support/tolerance.h"

namespace fla::test {
namespace {

using ops::ModuleRole;
using ops::ModuleRow;
using ops::ModuleSlot;

constexpr bool has_bit(uint32_t mask, size_t slot) {
  return (mask >> slot & 1U) != 0;
}

const ModuleSlot& slot_of(const ModuleRow& row, ModuleKey key) {
  const bool input = key.part == Part::kIn || key.part == Part::kDIn;
  return input ? row.in[key.slot] : row.out[key.slot];
}

DType slot_dtype(ModuleRole role, DType dtype) {
  switch (role) {
    case ModuleRole::kIndex:
      return DType::kInt32;
    case ModuleRole::kSum:
      return dtype == DType::kFp64 ? DType::kFp64 : DType::kFp32;
    default:
      return dtype;
  }
}

bool is_given(const ModuleCase& c, ModuleKey key) {
  if (!slot_of(c.row(), key).optional)
    return true;
  const bool input = key.part == Part::kIn || key.part == Part::kDIn;
  return input ? c.desc.has(key.slot) : c.desc.has_out(key.slot);
}

/// The values of an index slot: boundaries, positions, ids or labels.
std::vector<double> draw_indices(const ModuleCase& c, std::string_view name, int64_t count,
                                 const Philox& random) {
  if (name == "cu_seqlens")
    return {c.cu_seqlens.begin(), c.cu_seqlens.end()};
  if (name == "positions")
    return {c.positions.begin(), c.positions.end()};
  std::vector<double> values;
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
    const double id = std::floor(random.uniform(2 * i) * static_cast<double>(c.desc.out));
    const bool ignored = !c.any_target || (i % 8 == 3);
    values.push_back(name == "labels" && ignored ? (i % 2 == 0 ? -1 : -100) : id);
  }
  return values;
}

/// One element of a floating input: scaled so that outputs are of order 1.
double draw(const ModuleCase& c, std::string_view name, const Philox& random, uint64_t i) {
  const Module module = c.desc.module;
  const double x = random.normal(i);
  if (module == Module::kHgrn2Gate && name == "lower")
    return random.uniform(i);
  if (module == Module::kRwkv7Key && name == "rate")
    return 1 / (1 + std::exp(-x));
  if (name != "weight")
    return x;
  if (module == Module::kRmsNorm || module == Module::kLayerNorm)
    return 1 + 0.2 * x;
  return module == Module::kShortConv ? 0.5 * x : x / std::sqrt(static_cast<double>(c.desc.width));
}

HostTensor draw_tensor(const ModuleCase& c, ModuleKey key, DType dtype) {
  const ModuleSlot& slot = slot_of(c.row(), key);
  HostTensor tensor{slot_dtype(slot.role, dtype), {slot.rows(c.desc), slot.columns(c.desc)}, {}};
  const Philox random(c.seed, 16 * static_cast<uint64_t>(key.part) + key.slot);
  const int64_t count = num_elements(tensor.shape);
  if (slot.role == ModuleRole::kIndex) {
    tensor.values = draw_indices(c, slot.name, count, random);
    return tensor;
  }
  const std::string_view name = key.part == Part::kIn ? slot.name : "";
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i)
    tensor.values.push_back(round_to(tensor.dtype, draw(c, name, random, i)));
  return tensor;
}

/// The same numbers stored in the dtypes of a run.
HostTensor stored(const ModuleCase& c, ModuleKey key, HostTensor tensor, DType storage) {
  tensor.dtype = slot_dtype(slot_of(c.row(), key).role, storage);
  return tensor;
}

Layout layout_of(const ModuleCase& c, ModuleKey key) {
  const bool activation = slot_of(c.row(), key).role == ModuleRole::kActivation;
  return activation ? c.layout : Layout::kContiguous;
}

TensorView& view_of(ModuleTensors* tensors, ModuleKey key) {
  switch (key.part) {
    case Part::kIn:
      return tensors->in[key.slot];
    case Part::kOut:
      return tensors->out[key.slot];
    case Part::kDIn:
      return tensors->d_in[key.slot];
    case Part::kDOut:
      break;
  }
  return tensors->d_out[key.slot];
}

/// Places what a pass reads and what it writes; remembers in `written` what to read afterwards.
class CallBuilder {
 public:
  CallBuilder(const ModuleCase& c, Pass pass, const ModuleValues& values, DType storage)
      : case_(c), values_(values), storage_(storage) {
    call_.desc = c.desc;
    call_.desc.dtype = storage;
    call_.desc.param_dtype = storage;
    call_.pass = pass;
    pass == Pass::kForward ? build_forward() : build_backward();
  }
  ModuleCall& call() { return call_; }
  const std::vector<ModuleKey>& written() const { return written_; }

 private:
  void read(ModuleKey key) {
    call_.tensors.emplace(key, PlacedTensor::input(stored(case_, key, values_.at(key), storage_),
                                                   layout_of(case_, key)));
  }
  void write(ModuleKey key) {
    const ModuleSlot& slot = slot_of(case_.row(), key);
    call_.tensors.emplace(key,
                          PlacedTensor::output(slot_dtype(slot.role, storage_),
                                               {slot.rows(case_.desc), slot.columns(case_.desc)},
                                               layout_of(case_, key)));
    written_.push_back(key);
  }
  /// `key` lies in `memory`, an input that the pass may change.
  void share(ModuleKey key, ModuleKey memory) {
    call_.tensors.at(memory).allow_writes();
    call_.aliases.push_back({key, memory});
    written_.push_back(memory);
  }

  void build_forward() {
    const ModuleRow& row = case_.row();
    for (size_t i = 0; i < row.in.size(); ++i) {
      const ModuleKey key{Part::kIn, i};
      if (!is_given(case_, key))
        continue;
      read(key);
      if (row.in[i].name == "k_cache" || row.in[i].name == "v_cache") {
        call_.tensors.at(key).allow_writes();
        written_.push_back(key);
      }
    }
    for (size_t i = 0; i < row.out.size(); ++i) {
      const ModuleKey key{Part::kOut, i};
      const InPlace* shared = nullptr;
      for (const InPlace& pair : case_.in_place)
        shared = pair.out == i ? &pair : shared;
      if (is_given(case_, key))
        shared == nullptr ? write(key) : share(key, {Part::kIn, shared->in});
    }
  }

  void build_backward() {
    const ModuleRow& row = case_.row();
    for (const auto& [key, tensor] : values_) {
      const bool needed =
          key.part == Part::kIn ? has_bit(row.reads_in, key.slot) : key.part != Part::kDIn;
      if (needed)
        read(key);
    }
    if (case_.desc.module == Module::kLinearCrossEntropy)
      write({Part::kOut, slot::LinearCrossEntropy::loss});
    for (size_t i = 0; i < row.in.size(); ++i) {
      const ModuleKey key{Part::kDIn, i};
      if (!has_bit(row.grads & case_.wanted, i) || !is_given(case_, key))
        continue;
      bool shared = false;
      for (const InPlace& pair : case_.in_place) {
        if (pair.in == i && case_.desc.module == Module::kPointwise) {
          share(key, {Part::kDOut, pair.out});
          shared = true;
        }
      }
      if (shared)
        continue;
      if (!has_bit(case_.accumulate, i)) {
        write(key);
        continue;
      }
      read(key);
      call_.tensors.at(key).allow_writes();
      call_.accumulate |= 1U << static_cast<unsigned>(i);
      written_.push_back(key);
    }
  }

  const ModuleCase& case_;
  const ModuleValues& values_;
  DType storage_;
  ModuleCall call_;
  std::vector<ModuleKey> written_;
};

/// "" or where `got` is off: over the tensor by the ratio of norms, and element by element, so that
/// a wrong one does not hide among many.
std::string compare_tensor(const HostTensor& got, const HostTensor& want, double limit) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    if (!std::isfinite(got.values[i]))
      return "element " + std::to_string(i) + " is " + std::to_string(got.values[i]);
    error += (got.values[i] - want.values[i]) * (got.values[i] - want.values[i]);
    norm += want.values[i] * want.values[i];
  }
  const double count = static_cast<double>(want.values.size());
  if (std::sqrt(error) > limit * std::sqrt(norm) && std::sqrt(error / count) > kModuleAbsolute)
    return "error ratio " + std::to_string(std::sqrt(error / norm)) + " over " +
           std::to_string(limit);
  const double typical = std::sqrt(norm / count);
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double bound =
        kModuleElement * limit * (std::abs(want.values[i]) + typical) + kModuleAbsolute;
    if (std::abs(got.values[i] - want.values[i]) > bound)
      return "element " + std::to_string(i) + " is " + std::to_string(got.values[i]) +
             ", expected " + std::to_string(want.values[i]) + " within " + std::to_string(bound);
  }
  return "";
}

}  // namespace

std::string module_key_name(const ModuleCase& c, ModuleKey key) {
  const bool gradient = key.part == Part::kDIn || key.part == Part::kDOut;
  return (gradient ? "d_" : "") + std::string(slot_of(c.row(), key).name);
}

ModuleTensors ModuleCall::views(const std::function<void*(PlacedTensor&)>& address) {
  ModuleTensors result;
  result.accumulate = accumulate;
  for (auto& [key, placed] : tensors) {
    TensorView& view = view_of(&result, key);
    view = placed.view();
    view.data = address(placed);
  }
  for (const auto& [key, memory] : aliases)
    view_of(&result, key) = view_of(&result, memory);
  return result;
}

ModuleBackend host_module_backend(const Context& context) {
  return [context](ModuleCall& call) -> Status {
    const Result<std::unique_ptr<ModulePlan>> plan = ops::plan_module(call.desc, context);
    if (!plan.ok())
      return plan.status();
    const ModuleTensors views = call.views([](PlacedTensor& placed) { return placed.view().data; });
    const Status status = ops::check_module_tensors(call.desc, call.pass, views);
    if (!status.ok())
      return status;
    GuardedBuffer workspace(plan.value()->workspace_bytes(call.pass), Poison::kNan,
                            Poison::kPattern);
    const Status ran =
        plan.value()->run(call.pass, views, {workspace.data(), workspace.bytes()}, Stream(nullptr));
    if (ran.ok() && !workspace.bands_intact())
      return {Code::kInternal, "written outside the workspace"};
    return ran;
  };
}

ModuleResult run_module_pass(const ModuleCase& c, Pass pass, const ModuleValues& values,
                             DType storage, const ModuleBackend& backend) {
  CallBuilder builder(c, pass, values, storage);
  ModuleCall& call = builder.call();
  ModuleResult result;
  result.status = backend(call);
  for (const auto& [key, placed] : call.tensors) {
    if (const std::string text = placed.damage(); !text.empty())
      result.damage += module_key_name(c, key) + ": " + text + "\n";
  }
  if (!result.status.ok())
    return result;
  for (const ModuleKey key : builder.written())
    result.written.insert_or_assign(key, call.tensors.at(key).read());
  for (const auto& [key, memory] : call.aliases) {
    result.written.insert_or_assign(key, result.written.at(memory));
    result.written.erase(memory);
  }
  return result;
}

ModuleResult run_module(const ModuleCase& c, const ModuleValues& values, DType storage,
                        const ModuleBackend& backend) {
  ModuleResult result = run_module_pass(c, Pass::kForward, values, storage, backend);
  if (!result.status.ok() || !c.backward)
    return result;
  ModuleResult backward = run_module_pass(c, Pass::kBackward, values, storage, backend);
  result.status = backward.status;
  result.damage += backward.damage;
  result.written.merge(backward.written);
  return result;
}

ModuleValues make_module_values(const ModuleCase& c, DType dtype) {
  const ModuleRow& row = c.row();
  ModuleValues values;
  for (size_t i = 0; i < row.in.size(); ++i) {
    if (is_given(c, {Part::kIn, i}))
      values[{Part::kIn, i}] = draw_tensor(c, {Part::kIn, i}, dtype);
    if (has_bit(c.accumulate, i))
      values[{Part::kDIn, i}] = draw_tensor(c, {Part::kDIn, i}, dtype);
  }
  for (size_t i = 0; i < row.out.size(); ++i) {
    if (row.out[i].role != ModuleRole::kSum && !row.out[i].optional)
      values[{Part::kDOut, i}] = draw_tensor(c, {Part::kDOut, i}, dtype);
  }
  if (row.reads_out == 0 || !c.backward)
    return values;
  Context context;
  context.backend = Backend::kRef;
  const ModuleResult forward =
      run_module_pass(c, Pass::kForward, values, DType::kFp64, host_module_backend(context));
  for (const auto& [key, tensor] : forward.written) {
    if (key.part == Part::kOut && has_bit(row.reads_out, key.slot))
      values[key] = rounded(tensor, slot_dtype(row.out[key.slot].role, dtype));
  }
  return values;
}

std::string compare_module(const ModuleCase& c, DType dtype, const ModuleValues& got,
                           const ModuleValues& want, bool on_gpu) {
  std::string wrong;
  if (got.size() != want.size())
    wrong = std::to_string(got.size()) + " tensors, expected " + std::to_string(want.size()) + "\n";
  for (const auto& [key, tensor] : want) {
    const auto found = got.find(key);
    const std::string text =
        found == got.end()
            ? "not written"
            : compare_tensor(found->second, tensor,
                             module_limit(c.desc.module, dtype, key.part == Part::kDIn, on_gpu));
    if (!text.empty())
      wrong += module_key_name(c, key) + ": " + text + "\n";
  }
  return wrong;
}

std::string check_module(const ModuleCase& c, DType dtype, const ModuleBackend& backend,
                         bool on_gpu) {
  Context context;
  context.backend = Backend::kRef;
  const ModuleBackend ref = host_module_backend(context);
  const ModuleValues values = make_module_values(c, dtype);
  std::string wrong;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    if (pass == Pass::kBackward && !c.backward)
      continue;
    const ModuleResult want = run_module_pass(c, pass, values, DType::kFp64, ref);
    const ModuleResult got = run_module_pass(c, pass, values, dtype, backend);
    for (const ModuleResult* result : {&want, &got}) {
      if (!result->status.ok())
        return std::string(result->status.message());
    }
    wrong += want.damage + got.damage;
    wrong += compare_module(c, dtype, got.written, want.written, on_gpu);
  }
  return wrong;
}

}  // namespace fla::test
