// SPDX-License-Identifier: MIT
// `fla --version` and `fla --build-id`.
#include <fmt/format.h>

#include "cli/build_info.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "ops/targets.h"

namespace fla::cli {

int version() {
#ifdef __clang__
  constexpr const char* kCompiler = "clang " __clang_version__;
#else
  constexpr const char* kCompiler = "g++ " __VERSION__;
#endif
  const std::string text = fmt::format(
      "fla {}\n"
      "commit              {}{}\n"
      "tree                {}\n"
      "compiler            {}\n"
      "SIMD targets        {}\n"
      "CUDA architectures  {}\n",
      kVersion, kCommit, kDirty ? " (dirty)" : "", kTree, kCompiler,
      fmt::join(ops::cpu_targets(), " "), kCudaArchitectures);
  return print(text) ? kDone : kWorkload;
}

int build_id() {
  return print(fmt::format("{}{}\n", kTree, kDirty ? " (dirty)" : "")) ? kDone : kWorkload;
}

}  // namespace fla::cli
