// SPDX-License-Identifier: MIT
// The work list of packed calls, made on the device: where each sequence's chunks start in scratch,
// and the sequences, longest first.
#pragma once

#include <cstdint>

#include "cuda/chunk/instances.h"
#include "cuda/device/tensors.h"

namespace fla::cuda::chunk {

struct TableArguments {
  Sequences sequences;
  int64_t num_sequences = 0;
  int32_t steps = 1;
  int32_t chunk_rows = 0;
  int32_t num_chunks = 0;          // room in scratch; what is beyond is left out
  int32_t* first_chunk = nullptr;  // out [N + 1]
  int32_t* order = nullptr;        // out [N]
};

/// One block; its argument is a TableArguments.
Kernel table_kernel();

}  // namespace fla::cuda::chunk
