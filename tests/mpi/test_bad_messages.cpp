// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/native.hpp"
#include "tests/mpi/push_pull_job.hpp"

// Messages to a server that no worker sends: too short, too long, of unknown kinds. Each ends the server with
// an error; none is read as another kind.

namespace flotilla::mpi {
namespace {

constexpr std::size_t values = 100;
const std::vector<float> gradients(values);
constexpr PushPullRequest push{.kind = RequestKind::push_pull, .batches = 1};

/// What a worker of these tests sends with.
class Sender {
 public:
  explicit Sender(const Communicator& all) : all_(push_pull_copy(all)) {}

  void send(std::span<const std::byte> bytes, int tag) const {
    check(MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, tag, NativeHandle::of(all_)),
          "MPI_Send");
  }
  void send(const PushPullRequest& head) const { send(std::as_bytes(std::span(&head, 1)), request_tag); }
  void send(const std::vector<float>& floats, std::size_t count) const {
    check(MPI_Send(floats.data(), static_cast<int>(count), MPI_FLOAT, 0, push_tag, NativeHandle::of(all_)),
          "MPI_Send");
  }

 private:
  Communicator all_;
};

/// A server on rank 0 and a worker on rank 1 that sends what `send` does.
void expect_refused(PushPullWires wires, const std::function<void(const Sender&)>& send) {
  const auto world = Communicator::world();
  if (world.rank() == 0) {
    PushPullServer server(world, {1}, values, wires);
    EXPECT_THROW(
        {
          while (server.next()) continue;
        },
        std::exception);
    world.barrier();
  } else {
    const Sender sender(world);
    send(sender);
    world.barrier();
  }
}

TEST(BadMessages, HeadsOfAnotherSizeAreRefused) {
  const std::vector<std::byte> zeros(2 * sizeof(PushPullRequest));
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, sizeof(PushPullRequest) - 1, zeros.size()})
    expect_refused({}, [&](const Sender& worker) { worker.send(std::span(zeros).first(size), request_tag); });
}

TEST(BadMessages, HeadsOfUnknownKindsAndSizesAreRefused) {
  for (const int kind : {-1, 6, 1 << 30})
    expect_refused({}, [&](const Sender& worker) { worker.send({.kind = static_cast<RequestKind>(kind)}); });
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{1} << 31, std::int64_t{-1} << 63}) {
    const auto kind = RequestKind::rows;
    expect_refused({}, [&](const Sender& worker) { worker.send({.kind = kind, .payload_bytes = bytes}); });
    expect_refused({}, [&](const Sender& worker) { worker.send({.kind = kind, .reply_bytes = bytes}); });
  }
}

TEST(BadMessages, PayloadsThatAreCutOffAreRefused) {
  expect_refused({}, [&](const Sender& worker) {
    worker.send({.kind = RequestKind::rows, .payload_bytes = 24});
    worker.send(std::as_bytes(std::span(gradients)).first(16), payload_tag);
  });
}

TEST(BadMessages, ValuesThatAreCutOffAreRefused) {
  for (const std::size_t part : {std::size_t{0}, std::size_t{40}}) {
    expect_refused({.part_values = part}, [&](const Sender& worker) {
      worker.send(push);
      if (part > 0) worker.send(gradients, part);
      worker.send(gradients, 30);
    });
  }
}

TEST(BadMessages, OffsetsWithoutSharedMemoryAreRefused) {
  expect_refused({}, [&](const Sender& worker) {
    PushPullRequest head = push;
    head.window_at = 0;
    worker.send(head);
  });
}

}  // namespace
}  // namespace flotilla::mpi
