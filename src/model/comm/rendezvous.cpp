// SPDX-License-Identifier: MIT
// The id of a communicator over one TCP connection a rank: a request, the id, an acknowledgement.
#include "model/comm/rendezvous.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/comm/socket.h"

namespace fla::model {
namespace {

constexpr uint64_t kMagic = 0x01646961'6c662e63;
constexpr auto kPeerTime = std::chrono::seconds(1);  // for one exchange
constexpr auto kRetryPause = std::chrono::milliseconds(20);

// Both ends are this program on machines of one kind: the structs are sent as they are.
struct Request {
  uint64_t magic = kMagic;
  int32_t world = 0;
  int32_t rank = 0;
};
struct Reply {
  uint64_t magic = kMagic;
  int32_t world = 0;
  int32_t id_bytes = 0;  // 0: refused, since the worlds differ
};

template <class T>
std::span<const std::byte> sent(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> received(T* value) {
  return std::as_writable_bytes(std::span(value, 1));
}

Deadline after(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

Result<int> read_number(const std::string& name, const std::string& text, int low, int high) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high)
    return Status(Code::kInvalidArgument,
                  fmt::format("{} is '{}', expected {} to {}", name, text, low, high));
  return value;
}

/// The rank that was served; none where the connection was none of ours.
std::optional<int> serve_one(const Socket& peer, const Launch& launch, const UniqueId& id,
                             Deadline deadline) {
  Request request;
  if (!peer.receive(received(&request), deadline).ok() || request.magic != kMagic)
    return std::nullopt;
  const bool fits =
      request.world == launch.world && request.rank > 0 && request.rank < launch.world;
  const Reply reply = {.world = launch.world,
                       .id_bytes = fits ? static_cast<int32_t>(id.size()) : 0};
  if (!peer.send(sent(reply), deadline).ok() || !fits || !peer.send(id, deadline).ok())
    return std::nullopt;
  std::byte acknowledged{};
  if (!peer.receive(received(&acknowledged), deadline).ok())
    return std::nullopt;
  return request.rank;
}

struct Fetched {
  Status status;
  bool again = false;  // whether trying again may help
  UniqueId id{};
};

Fetched fetch_once(const Launch& launch, Deadline deadline) {
  const Result<Socket> peer = Socket::connect(launch.master_addr, id_port(launch), deadline);
  if (!peer.ok())
    return {peer.status(), true};
  const Request request = {.world = launch.world, .rank = launch.rank};
  Reply reply;
  Status status = peer.value().send(sent(request), deadline);
  if (status.ok())
    status = peer.value().receive(received(&reply), deadline);
  if (!status.ok())
    return {status, true};
  if (reply.magic != kMagic)
    return {Status(Code::kIo, "another program answers there")};
  if (reply.world != launch.world)
    return {
        Status(Code::kIo, fmt::format("rank 0 was started with WORLD_SIZE {}, this rank with {}",
                                      reply.world, launch.world))};
  Fetched fetched;
  if (reply.id_bytes != static_cast<int32_t>(fetched.id.size()))
    return {Status(Code::kIo, fmt::format("rank 0 offers an id of {} bytes, expected {}",
                                          reply.id_bytes, fetched.id.size()))};
  fetched.again = true;
  fetched.status = peer.value().receive(fetched.id, deadline);
  if (fetched.status.ok())
    fetched.status = peer.value().send(sent(std::byte{1}), deadline);
  return fetched;
}

}  // namespace

Result<Launch> parse_launch(const std::function<std::string(const std::string&)>& variable) {
  constexpr int kMaxWorld = 1 << 20;
  Launch launch;
  if (variable("RANK").empty() && variable("WORLD_SIZE").empty())
    return launch;
  const Result<int> world = read_number("WORLD_SIZE", variable("WORLD_SIZE"), 1, kMaxWorld);
  if (!world.ok())
    return world.status();
  const Result<int> rank = read_number("RANK", variable("RANK"), 0, world.value() - 1);
  if (!rank.ok())
    return rank.status();
  launch.world = world.value();
  launch.rank = rank.value();
  launch.local_rank = launch.rank;
  if (const std::string text = variable("LOCAL_RANK"); !text.empty()) {
    const Result<int> local = read_number("LOCAL_RANK", text, 0, launch.rank);
    if (!local.ok())
      return local.status();
    launch.local_rank = local.value();
  }
  if (const std::string text = variable("MASTER_ADDR"); !text.empty())
    launch.master_addr = text;
  if (const std::string text = variable("MASTER_PORT"); !text.empty()) {
    const Result<int> port = read_number("MASTER_PORT", text, 1, 65534);
    if (!port.ok())
      return port.status();
    launch.master_port = port.value();
  }
  return launch;
}

int id_port(const Launch& launch) {
  return launch.master_port + 1;
}

Status serve_id(const Launch& launch, const UniqueId& id, std::chrono::milliseconds timeout) {
  if (launch.world == 1)
    return {};
  const Result<Socket> listener = Socket::listen(launch.master_addr, id_port(launch));
  if (!listener.ok())
    return listener.status();
  const Deadline deadline = after(timeout);
  std::set<int> missing;
  for (int rank = 1; rank < launch.world; ++rank)
    missing.insert(rank);
  while (!missing.empty()) {
    const Result<Socket> peer = listener.value().accept(deadline);
    if (!peer.ok())
      return {Code::kIo, fmt::format("rank 0 at {}:{} waited {} ms for ranks {}: {}",
                                     launch.master_addr, id_port(launch), timeout.count(),
                                     fmt::join(missing, ", "), peer.status().message())};
    const Deadline peer_deadline = std::min(deadline, after(kPeerTime));
    if (const std::optional<int> rank = serve_one(peer.value(), launch, id, peer_deadline))
      missing.erase(*rank);
  }
  return {};
}

Result<UniqueId> fetch_id(const Launch& launch, std::chrono::milliseconds timeout) {
  const Deadline deadline = after(timeout);
  for (;;) {
    const Fetched fetched = fetch_once(launch, deadline);
    if (fetched.status.ok())
      return fetched.id;
    if (!fetched.again || std::chrono::steady_clock::now() + kRetryPause >= deadline)
      return Status(Code::kIo,
                    fmt::format("rank {}: no id from rank 0 at {}:{}: {}", launch.rank,
                                launch.master_addr, id_port(launch), fetched.status.message()));
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace fla::model
