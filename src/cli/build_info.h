// SPDX-License-Identifier: MIT
// What this binary was built from.
#pragma once

namespace fla::cli {

extern const char* const kCommit;  // "unknown" without git
extern const char* const kTree;    // of that commit: the id of its files
extern const bool kDirty;          // tracked files differed from the commit

inline constexpr const char* kVersion = FLA_VERSION;
inline constexpr const char* kCudaArchitectures = FLA_CUDA_ARCHITECTURES;  // "none" without CUDA

}  // namespace fla::cli
