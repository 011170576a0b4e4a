// SPDX-License-Identifier: MIT
// Parameters between memory and files: initialisation, loading, saving.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "fla/plan.h"
#include "fla/status.h"
#include "model/config.h"
#include "model/graph.h"
#include "model/memory.h"
#include "model/program.h"

namespace fla::model {

/// An array with one number a parameter, laid out as the parameters are: themselves, or what an
/// optimizer keeps of them.
struct ParameterArray {
  const Graph& graph;
  const Layout& layout;
  const Memory& memory;
  DType dtype = DType::kFp32;
  std::string_view prefix = {};  // leads the names in files: "exp_avg."
};

/// Fills every parameter as its Init says, the gaps between them with zeros. A parameter's numbers
/// depend on the seed and its place in the graph alone.
Status initialize_parameters(const ParameterArray& array, uint64_t seed, Stream stream);

/// Loads a folder or a file in the Hugging Face layout into arrays; nothing changes unless every
/// tensor of all of them is there and no other. Errors: kIo; kInvalidArgument listing every
/// missing, extra or misshapen tensor.
Status load_parameters(std::span<const ParameterArray> arrays, const std::string& path,
                       Stream stream);

/// Writes config.json and model.safetensors, in shards of at most 5 GB.
Status save_model(const ParameterArray& array, const Config& config, const std::string& folder,
                  Stream stream);

/// Writes one file of several arrays and a few words.
Status save_arrays(std::span<const ParameterArray> arrays, const std::string& path,
                   const std::map<std::string, std::string>& metadata, Stream stream);

}  // namespace fla::model
