// SPDX-License-Identifier: MIT
// Rendezvous: how the processes of a run find each other, as torchrun starts them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "fla/status.h"

namespace fla::model {

/// What a launcher tells each process.
struct Launch {
  int rank = 0;
  int world = 1;
  int local_rank = 0;  // which GPU of its machine
  std::string master_addr = "127.0.0.1";
  int master_port = 29500;
};

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT through `variable`, which gives
/// "" for one that is not set; without RANK and WORLD_SIZE it is a run of one. Errors:
/// kInvalidArgument, naming the variable, what was expected and what came.
Result<Launch> parse_launch(const std::function<std::string(const std::string&)>& variable);

/// What rank 0 makes and everybody must know to build a communicator.
using UniqueId = std::array<std::byte, 128>;

/// Where rank 0 serves the id: the port after MASTER_PORT, at which torchrun's own store listens.
int id_port(const Launch& launch);

/// Gives the id to every other rank, one after the other; for rank 0. A connection that is none of
/// theirs, or breaks, is dropped. Errors: kIo, naming the ranks that did not come in time.
Status serve_id(const Launch& launch, const UniqueId& id, std::chrono::milliseconds timeout);

/// Fetches the id from rank 0, trying again until it is there. Errors: kIo with the last cause when
/// time is up, or at once where another program answers or WORLD_SIZE differs.
Result<UniqueId> fetch_id(const Launch& launch, std::chrono::milliseconds timeout);

}  // namespace fla::model
