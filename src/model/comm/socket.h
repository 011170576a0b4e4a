// SPDX-License-Identifier: MIT
// Socket: TCP connections whose every step has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "fla/status.h"

namespace fla::model {

using Deadline = std::chrono::steady_clock::time_point;

/// An open socket. Move-only. Errors of all calls: kIo, naming the address or the cause.
class Socket {
 public:
  /// Listens at an address of this machine; at all of them where `host` is none of its own, as
  /// behind a load balancer.
  static Result<Socket> listen(const std::string& host, int port);
  static Result<Socket> connect(const std::string& host, int port, Deadline deadline);
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  /// The next connection to a listening socket.
  Result<Socket> accept(Deadline deadline) const;
  Status send(std::span<const std::byte> bytes, Deadline deadline) const;
  /// Fills `bytes`; a peer that closes before is an error.
  Status receive(std::span<std::byte> bytes, Deadline deadline) const;

 private:
  explicit Socket(int file) : file_(file) {}
  Status wait_for(short events, Deadline deadline) const;

  int file_ = -1;
};

}  // namespace fla::model
