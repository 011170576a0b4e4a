// SPDX-License-Identifier: MIT
// Parameters: random starts, and the way to and from safetensors.
#include "model/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "core/half.h"
#include "core/philox.h"
#include "model/io/file.h"
#include "model/io/match.h"
#include "model/io/safetensors.h"

namespace fla::model {
namespace {

constexpr int64_t kShardBytes = int64_t{5} * 1000 * 1000 * 1000;

int64_t count_of(const Graph& graph, const ParameterInfo& parameter) {
  return parameter.rows * graph.info(parameter.tensor).columns;
}

/// First element of a parameter in the array.
int64_t offset_of(const ParameterArray& array, const ParameterInfo& parameter) {
  const TensorInfo& info = array.graph.info(parameter.tensor);
  return array.layout.parameter_offset(info.name) + parameter.row0 * info.columns;
}

/// Four numbers of N(0, 1) from one block of random bits.
void four_normals(const Philox& philox, uint64_t block, float* out) {
  const std::array<uint32_t, 4> bits = philox.block(block);
  for (size_t pair = 0; pair < 4; pair += 2) {
    const float radius =
        std::sqrt(-2.0F * std::log((static_cast<float>(bits[pair]) + 0.5F) * 0x1p-32F));
    const float angle =
        2.0F * std::numbers::pi_v<float> * static_cast<float>(bits[pair + 1]) * 0x1p-32F;
    out[pair] = radius * std::cos(angle);
    out[pair + 1] = radius * std::sin(angle);
  }
}

void fill_normal(const Philox& philox, float scale, std::vector<float>* values) {
  const auto count = static_cast<int64_t>(values->size());
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < (count + 3) / 4; ++block) {
    float four[4];
    four_normals(philox, static_cast<uint64_t>(block), four);
    for (int64_t i = 4 * block; i < std::min(count, 4 * block + 4); ++i)
      (*values)[static_cast<size_t>(i)] = scale * four[i - 4 * block];
  }
}

/// dt ~ exp(U(ln .001, ln .1)), at least 1e-4; the number whose softplus it is.
double inverse_softplus_of_step(double uniform) {
  const double dt =
      std::max(1e-4, std::exp(std::log(1e-3) + uniform * (std::log(1e-1) - std::log(1e-3))));
  return dt + std::log(-std::expm1(-dt));
}

void fill(const ParameterInfo& parameter, const Philox& philox, std::vector<float>* values) {
  const auto each = [&](auto value_of) {
    for (size_t i = 0; i < values->size(); ++i)
      (*values)[i] = static_cast<float>(value_of(static_cast<uint64_t>(i)));
  };
  switch (parameter.init) {
    case Init::kNormal:
      return fill_normal(philox, parameter.scale, values);
    case Init::kConstant:
      return std::fill(values->begin(), values->end(), parameter.scale);
    case Init::kUniform:
      return each([&](uint64_t i) { return parameter.scale * (2.0 * philox.uniform(i) - 1.0); });
    case Init::kLogUniform16:
      return each([&](uint64_t i) { return std::log(1.0 + 15.0 * philox.uniform(i)); });
    case Init::kInverseSoftplus:
      return each([&](uint64_t i) { return inverse_softplus_of_step(philox.uniform(i)); });
    case Init::kValues:
      *values = parameter.values;
  }
}

std::vector<std::byte> to_dtype(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  const auto count = static_cast<int64_t>(values.size());
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[static_cast<size_t>(i)];
    std::byte* out = bytes.data() + static_cast<size_t>(i) * dtype_bytes(dtype);
    if (dtype == DType::kBf16) {
      const uint16_t half = float_to_bf16(value);
      std::memcpy(out, &half, sizeof(half));
    } else if (dtype == DType::kFp64) {
      const double wide = value;
      std::memcpy(out, &wide, sizeof(wide));
    } else {
      std::memcpy(out, &value, sizeof(value));
    }
  }
  return bytes;
}

Status upload(const ParameterArray& array, const ParameterInfo& parameter,
              const std::vector<std::byte>& bytes, Stream stream) {
  const auto size = static_cast<int64_t>(dtype_bytes(array.dtype));
  return array.memory.upload(offset_of(array, parameter) * size, bytes.data(),
                             static_cast<int64_t>(bytes.size()), stream);
}

Status write_config(const Config& config, const std::string& folder) {
  Result<PendingFile> file = PendingFile::create(folder + "/config.json");
  if (!file.ok())
    return file.status();
  const std::string text = config.to_json();
  Status status = file.value().write(std::as_bytes(std::span(text)));
  if (status.ok())
    status = file.value().close();
  return status.ok() ? file.value().commit() : status;
}

std::string file_name(const ParameterArray& array, const ParameterInfo& parameter) {
  return fmt::format("{}{}", array.prefix, parameter.name);
}

/// The array as host tensors, in `host`, which they borrow.
Status download(const ParameterArray& array, Stream stream, std::vector<std::byte>* host,
                std::vector<TensorEntry>* entries) {
  host->resize(static_cast<size_t>(array.memory.bytes()));
  Status status = array.memory.download(0, host->data(), array.memory.bytes(), stream);
  if (!status.ok())
    return status;
  for (const ParameterInfo& parameter : array.graph.parameters) {
    const size_t first =
        static_cast<size_t>(offset_of(array, parameter)) * dtype_bytes(array.dtype);
    entries->push_back({.name = file_name(array, parameter),
                        .dtype = array.dtype,
                        .shape = parameter.shape,
                        .data = host->data() + first});
  }
  return {};
}

}  // namespace

Status initialize_parameters(const ParameterArray& array, uint64_t seed, Stream stream) {
  Status status = array.memory.clear(stream);
  uint64_t index = 0;
  for (const ParameterInfo& parameter : array.graph.parameters) {
    std::vector<float> values(static_cast<size_t>(count_of(array.graph, parameter)));
    fill(parameter, Philox(seed, index++), &values);
    if (status.ok())
      status = upload(array, parameter, to_dtype(values, array.dtype), stream);
  }
  return status;
}

Status load_parameters(std::span<const ParameterArray> arrays, const std::string& path,
                       Stream stream) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint.ok())
    return checkpoint.status();
  std::vector<ExpectedTensor> expected;
  for (const ParameterArray& array : arrays) {
    for (const ParameterInfo& parameter : array.graph.parameters)
      expected.push_back({file_name(array, parameter), parameter.shape});
  }
  Status status = match_tensors(expected, checkpoint.value());
  for (const ParameterArray& array : arrays) {
    if (status.ok())
      status = array.memory.clear(stream);
    for (const ParameterInfo& parameter : array.graph.parameters) {
      if (!status.ok())
        return status;
      std::vector<std::byte> bytes(static_cast<size_t>(count_of(array.graph, parameter)) *
                                   dtype_bytes(array.dtype));
      status = convert_tensor(*checkpoint.value().find(file_name(array, parameter)), array.dtype,
                              bytes.data());
      if (status.ok())
        status = upload(array, parameter, bytes, stream);
    }
  }
  return status;
}

Status save_model(const ParameterArray& array, const Config& config, const std::string& folder,
                  Stream stream) {
  std::vector<std::byte> host;
  std::vector<TensorEntry> entries;
  Status status = download(array, stream, &host, &entries);
  if (status.ok())
    status = write_checkpoint(folder, entries, kShardBytes, {{"format", "pt"}});
  return status.ok() ? write_config(config, folder) : status;
}

Status save_arrays(std::span<const ParameterArray> arrays, const std::string& path,
                   const std::map<std::string, std::string>& metadata, Stream stream) {
  std::vector<std::vector<std::byte>> hosts(arrays.size());
  std::vector<TensorEntry> entries;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (Status status = download(arrays[i], stream, &hosts[i], &entries); !status.ok())
      return status;
  }
  return write_tensor_file(path, entries, metadata);
}

}  // namespace fla::model
