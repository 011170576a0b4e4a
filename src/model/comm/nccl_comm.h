// SPDX-License-Identifier: MIT
// A Comm over NCCL: one process a GPU.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "fla/status.h"
#include "model/comm/comm.h"
#include "model/comm/rendezvous.h"

namespace fla::model {

/// Meets the other processes of the launch and joins their communicator, on the device that is
/// current. All calls wait at most `timeout` for other ranks. Errors: kIo for a rank that does not
/// come (rendezvous.h) or where NCCL is not found (cuda/runtime/nccl.h); kCuda.
Result<std::unique_ptr<Comm>> make_nccl_comm(const Launch& launch,
                                             std::chrono::milliseconds timeout,
                                             const std::string& lib_dir);

}  // namespace fla::model
