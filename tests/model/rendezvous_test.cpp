// SPDX-License-Identifier: MIT
// The processes of a run find each other, or say who is missing; and NCCL's ways to fail.
#include "model/comm/rendezvous.h"

#include <cstring>
#include <future>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cuda/runtime/library.h"
#include "cuda/runtime/nccl.h"
#include "model/comm/nccl_comm.h"
#include "model/comm/socket.h"

namespace fla::model {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr milliseconds kLong(20'000);

/// A launch on this machine whose id port is free.
Launch local_launch(int rank, int world, int port) {
  return {.rank = rank, .world = world, .master_addr = "127.0.0.1", .master_port = port - 1};
}

int free_port() {
  const int file = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(file, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(file, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(file);
  return ntohs(address.sin_port);
}

UniqueId some_id() {
  UniqueId id;
  for (size_t i = 0; i < id.size(); ++i)
    id[i] = static_cast<std::byte>(3 * i + 1);
  return id;
}

Deadline soon() {
  return std::chrono::steady_clock::now() + kLong;
}

std::future<Status> serve(int world, int port, milliseconds timeout = kLong) {
  return std::async(std::launch::async,
                    [=] { return serve_id(local_launch(0, world, port), some_id(), timeout); });
}

std::string fetch_error(const Launch& launch, milliseconds timeout) {
  const Result<UniqueId> id = fetch_id(launch, timeout);
  return id.ok() ? "" : std::string(id.status().message());
}

Result<Launch> parse(const std::map<std::string, std::string>& variables) {
  return parse_launch([&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(Launch, ReadsTheVariables) {
  const Launch alone = parse({}).value();
  EXPECT_EQ(alone.rank, 0);
  EXPECT_EQ(alone.world, 1);
  const Launch launch = parse({{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "node0"},
                               {"MASTER_PORT", "1234"}})
                            .value();
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.master_addr, "node0");
  EXPECT_EQ(launch.master_port, 1234);
  EXPECT_EQ(parse({{"RANK", "3"}, {"WORLD_SIZE", "4"}}).value().local_rank, 3);
}

TEST(Launch, NamesTheBadVariable) {
  const auto message = [](const std::map<std::string, std::string>& variables) {
    return std::string(parse(variables).status().message());
  };
  EXPECT_EQ(message({{"RANK", "8"}, {"WORLD_SIZE", "8"}}), "RANK is '8', expected 0 to 7");
  EXPECT_THAT(message({{"RANK", "0"}}), HasSubstr("WORLD_SIZE is ''"));
  EXPECT_THAT(message({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is ''"));
  EXPECT_THAT(message({{"RANK", "1x"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK is '1x'"));
  EXPECT_THAT(message({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE is '0'"));
  EXPECT_THAT(message({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "-1"}}),
              HasSubstr("LOCAL_RANK is '-1'"));
  EXPECT_THAT(message({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "65535"}}),
              HasSubstr("MASTER_PORT is '65535', expected 1 to 65534"));
}

TEST(Rendezvous, EveryRankGetsTheId) {
  const int port = free_port();
  std::vector<std::future<Result<UniqueId>>> others;
  for (int rank = 1; rank < 5; ++rank)
    others.push_back(std::async(std::launch::async,
                                [=] { return fetch_id(local_launch(rank, 5, port), kLong); }));
  std::this_thread::sleep_for(milliseconds(60));  // they come before rank 0 and try again
  const Status served = serve(5, port).get();
  EXPECT_TRUE(served.ok()) << served.message();
  for (auto& other : others) {
    const Result<UniqueId> id = other.get();
    ASSERT_TRUE(id.ok()) << id.status().message();
    EXPECT_EQ(id.value(), some_id());
  }
  EXPECT_TRUE(serve_id(local_launch(0, 1, port), some_id(), milliseconds(0)).ok());
}

TEST(Rendezvous, NobodyListens) {
  const int port = free_port();
  EXPECT_THAT(fetch_error(local_launch(1, 2, port), milliseconds(100)),
              AllOf(HasSubstr("rank 1: no id from rank 0 at 127.0.0.1:" + std::to_string(port)),
                    HasSubstr("Connection refused")));
  Launch nowhere = local_launch(1, 2, port);
  nowhere.master_addr = "no-such-host.invalid";
  EXPECT_THAT(fetch_error(nowhere, milliseconds(50)), HasSubstr("no-such-host.invalid"));
}

TEST(Rendezvous, RanksThatDoNotComeAreNamed) {
  const int port = free_port();
  std::future<Status> server = serve(4, port, milliseconds(300));
  EXPECT_EQ(fetch_error(local_launch(2, 4, port), kLong), "");
  const Status status = server.get();
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_THAT(status.message(), HasSubstr("waited 300 ms for ranks 1, 3: no answer in time"));
}

TEST(Rendezvous, StrangersAndDeadPeersAreDropped) {
  const int port = free_port();
  std::future<Status> server = serve(2, port);
  const auto connect = [&] {
    for (;;) {
      Result<Socket> socket = Socket::connect("127.0.0.1", port, soon());
      if (socket.ok())
        return std::move(socket.value());
      std::this_thread::sleep_for(milliseconds(5));
    }
  };
  std::string stranger = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_TRUE(connect().send(std::as_bytes(std::span(stranger)), soon()).ok());
  ASSERT_TRUE(
      connect().send(std::as_bytes(std::span(stranger)).first(3), soon()).ok());  // and dies
  {
    // Asks as rank 1 of 2 would, and dies before it has the id: rank 1 is still missing.
    std::array<std::byte, 16> request{};
    const uint64_t magic = 0x01646961'6c662e63;
    const std::array<int32_t, 2> world_and_rank = {2, 1};
    std::memcpy(request.data(), &magic, 8);
    std::memcpy(request.data() + 8, world_and_rank.data(), 8);
    const Socket peer = connect();
    ASSERT_TRUE(peer.send(request, soon()).ok());
    std::array<std::byte, 20> part{};
    ASSERT_TRUE(peer.receive(part, soon()).ok());
  }
  EXPECT_EQ(server.wait_for(milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(fetch_error(local_launch(1, 2, port), kLong), "");
  EXPECT_TRUE(server.get().ok());
}

/// One connection is accepted and answered with `reply`.
std::string fetch_from_impostor(std::span<const std::byte> reply) {
  const int port = free_port();
  const Result<Socket> listener = Socket::listen("127.0.0.1", port);
  EXPECT_TRUE(listener.ok()) << listener.status().message();
  std::future<void> impostor = std::async(std::launch::async, [&] {
    const Result<Socket> peer = listener.value().accept(soon());
    std::array<std::byte, 16> request{};
    EXPECT_TRUE(peer.value().receive(request, soon()).ok());
    EXPECT_TRUE(peer.value().send(reply, soon()).ok());
  });
  return fetch_error(local_launch(1, 2, port), milliseconds(300));
}

TEST(Rendezvous, WrongAnswersAreRefused) {
  const std::string http = "HTTP/1.1 400 Bad Request\r\n\r\n";
  EXPECT_THAT(fetch_from_impostor(std::as_bytes(std::span(http))),
              HasSubstr("another program answers there"));
  std::array<std::byte, 16> reply{};
  const uint64_t magic = 0x01646961'6c662e63;
  std::memcpy(reply.data(), &magic, 8);
  const std::array<int32_t, 2> long_id = {2, 4096};
  std::memcpy(reply.data() + 8, long_id.data(), 8);
  EXPECT_THAT(fetch_from_impostor(reply), HasSubstr("an id of 4096 bytes, expected 128"));
  EXPECT_THAT(fetch_from_impostor(std::span(reply).first(9)),
              AllOf(HasSubstr("rank 1: no id"), testing::Not(HasSubstr("another program"))))
      << "a rank 0 that dies while it answers";
}

TEST(Rendezvous, DifferentWorldSizesAreNamed) {
  const int port = free_port();
  std::future<Status> server = serve(2, port, milliseconds(500));
  EXPECT_THAT(fetch_error(local_launch(2, 3, port), kLong),
              HasSubstr("rank 0 was started with WORLD_SIZE 2, this rank with 3"));
  EXPECT_THAT(server.get().message(), HasSubstr("for ranks 1"));
}

TEST(Rendezvous, PortInUse) {
  const int port = free_port();
  const Result<Socket> other = Socket::listen("127.0.0.1", port);
  ASSERT_TRUE(other.ok());
  EXPECT_THAT(serve_id(local_launch(0, 2, port), some_id(), milliseconds(100)).message(),
              HasSubstr("cannot listen at 127.0.0.1:" + std::to_string(port)));
}

/// NCCL played by fake_nccl/nccl.c.
class NcclTest : public testing::Test {
 protected:
  static Result<cuda::Nccl> create(char role, int world = 2) {
    Result<cuda::NcclId> id = cuda::Nccl::make_id("");
    EXPECT_TRUE(id.ok()) << id.status().message();
    id.value()[0] = static_cast<std::byte>(role);
    return cuda::Nccl::create(id.value(), 1, world, milliseconds(100), "");
  }
  static int counter(const char* name) {
    const Result<cuda::Library> library = cuda::Library::open({"libnccl.so.2"}, "");
    return *reinterpret_cast<int*>(library.value().function<void()>(name));
  }

  Stream stream_{nullptr};
  float value_ = 1.0F;
};

TEST_F(NcclTest, CallsAsTheHeaderSays) {
  const int destroyed = counter("fake_nccl_destroyed");
  {
    Result<cuda::Nccl> nccl = create('o');
    ASSERT_TRUE(nccl.ok()) << nccl.status().message();
    EXPECT_EQ(nccl.value().rank(), 1);
    EXPECT_EQ(nccl.value().world(), 2);
    EXPECT_TRUE(nccl.value().all_reduce_mean(&value_, 1, DType::kBf16, stream_).ok());
    EXPECT_EQ(counter("fake_nccl_type"), 9);
    EXPECT_EQ(counter("fake_nccl_operation"), 4);
    EXPECT_TRUE(nccl.value().all_reduce_mean(&value_, 1, DType::kFp32, stream_).ok());
    EXPECT_EQ(counter("fake_nccl_type"), 7);
    EXPECT_TRUE(nccl.value().broadcast(&value_, 4, 0, stream_).ok());
    EXPECT_EQ(counter("fake_nccl_type"), 1);
    EXPECT_TRUE(nccl.value().finish(stream_).ok());
    EXPECT_EQ(nccl.value().all_reduce_mean(&value_, 1, DType::kInt32, stream_).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(nccl.value().broadcast(&value_, 4, 2, stream_).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(counter("fake_nccl_destroyed"), destroyed + 1);
}

TEST_F(NcclTest, RanksThatNeverJoin) {
  const int aborted = counter("fake_nccl_aborted");
  const Result<cuda::Nccl> nccl = create('h');
  EXPECT_EQ(nccl.status().message(),
            "rank 1 of 2: joining the other ranks: nothing for 100 ms: another rank is dead or "
            "stuck");
  EXPECT_EQ(counter("fake_nccl_aborted"), aborted + 1);
}

TEST_F(NcclTest, RankThatDies) {
  const int aborted = counter("fake_nccl_aborted");
  const int destroyed = counter("fake_nccl_destroyed");
  {
    Result<cuda::Nccl> nccl = create('r');
    ASSERT_TRUE(nccl.ok());
    EXPECT_TRUE(nccl.value().all_reduce_mean(&value_, 1, DType::kFp32, stream_).ok());
    EXPECT_EQ(nccl.value().finish(stream_).message(),
              "rank 1 of 2: a collective: remote process exited");
    EXPECT_THAT(nccl.value().finish(stream_).message(), HasSubstr("given up earlier: rank 1"));
    EXPECT_FALSE(nccl.value().broadcast(&value_, 4, 0, stream_).ok());
  }
  EXPECT_EQ(counter("fake_nccl_aborted"), aborted + 1);
  EXPECT_EQ(counter("fake_nccl_destroyed"), destroyed) << "it was freed by the abort";
}

TEST_F(NcclTest, RankThatIsStuck) {
  Result<cuda::Nccl> nccl = create('s');
  ASSERT_TRUE(nccl.ok());
  EXPECT_TRUE(nccl.value().broadcast(&value_, 4, 0, stream_).ok());
  EXPECT_THAT(nccl.value().finish(stream_).message(),
              HasSubstr("the stream: nothing for 100 ms: another rank is dead or stuck"));
}

}  // namespace
}  // namespace fla::model
