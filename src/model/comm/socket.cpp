// SPDX-License-Identifier: MIT
// TCP connections whose every step has a deadline.
#include "model/comm/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fla::model {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Status failure(const std::string& what, int error) {
  return {Code::kIo, fmt::format("{}: {}", what, std::strerror(error))};
}

/// The addresses of a host; of this machine as a whole where it is null.
Result<Addresses> resolve(const char* host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (host == nullptr ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    return Status(Code::kIo, fmt::format("cannot find the host '{}': {}",
                                         host == nullptr ? "" : host, ::gai_strerror(error)));
  return Addresses(found, &::freeaddrinfo);
}

int open_socket(const addrinfo& address) {
  return ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                  address.ai_protocol);
}

}  // namespace

Socket::~Socket() {
  if (file_ >= 0)
    ::close(file_);
}

Socket::Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Result<Socket> Socket::listen(const std::string& host, int port) {
  int error = EADDRNOTAVAIL;
  for (const char* const at : {host.c_str(), static_cast<const char*>(nullptr)}) {
    if (error != EADDRNOTAVAIL)
      break;
    const Result<Addresses> addresses = resolve(at, port);
    if (!addresses.ok())
      return addresses.status();
    for (const addrinfo* address = addresses.value().get(); address != nullptr;
         address = address->ai_next) {
      Socket socket(open_socket(*address));
      const int on = 1;
      if (socket.file_ >= 0 &&
          ::setsockopt(socket.file_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
          ::bind(socket.file_, address->ai_addr, address->ai_addrlen) == 0 &&
          ::listen(socket.file_, SOMAXCONN) == 0)
        return socket;
      error = errno;
    }
  }
  return failure(fmt::format("cannot listen at {}:{}", host, port), error);
}

Result<Socket> Socket::connect(const std::string& host, int port, Deadline deadline) {
  const Result<Addresses> addresses = resolve(host.c_str(), port);
  if (!addresses.ok())
    return addresses.status();
  int error = ECONNREFUSED;
  for (const addrinfo* address = addresses.value().get(); address != nullptr;
       address = address->ai_next) {
    Socket socket(open_socket(*address));
    error = 0;
    if (socket.file_ < 0 || (::connect(socket.file_, address->ai_addr, address->ai_addrlen) != 0 &&
                             errno != EINPROGRESS))
      error = errno;
    if (error == 0 && !socket.wait_for(POLLOUT, deadline).ok())
      error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (error == 0 && ::getsockopt(socket.file_, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
    if (error == 0)
      return socket;
  }
  return failure(fmt::format("cannot connect to {}:{}", host, port), error);
}

Status Socket::wait_for(short events, Deadline deadline) const {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry = {file_, events, 0};
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000)));
    if (ready > 0)
      return {};
    if (ready < 0 && errno != EINTR)
      return failure("poll", errno);
    if (left.count() <= 0)
      return {Code::kIo, "no answer in time"};
  }
}

Result<Socket> Socket::accept(Deadline deadline) const {
  for (;;) {
    if (Status status = wait_for(POLLIN, deadline); !status.ok())
      return status;
    const int file = ::accept4(file_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file >= 0)
      return Socket(file);
    // A peer that has gone meanwhile is no error of the listening socket.
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
      return failure("accept", errno);
  }
}

Status Socket::send(std::span<const std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    if (Status status = wait_for(POLLOUT, deadline); !status.ok())
      return status;
    const ssize_t sent = ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
      return failure("send", errno);
    if (sent > 0)
      bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return {};
}

Status Socket::receive(std::span<std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    if (Status status = wait_for(POLLIN, deadline); !status.ok())
      return status;
    const ssize_t received = ::recv(file_, bytes.data(), bytes.size(), 0);
    if (received == 0)
      return {Code::kIo, "the peer closed the connection"};
    if (received < 0 && errno != EAGAIN && errno != EINTR)
      return failure("receive", errno);
    if (received > 0)
      bytes = bytes.subspan(static_cast<size_t>(received));
  }
  return {};
}

}  // namespace fla::model
