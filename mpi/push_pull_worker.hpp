// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mpi/communicator.hpp"
#include "mpi/push_pull.hpp"
#include "mpi/slices.hpp"

namespace flotilla::mpi {

/// What one server owns of a worker's arena.
struct ServerShare {
  int rank = 0;                     ///< The server's
  std::vector<SliceBounds> runs{};  ///< Ascending, in floats of the arena
};

/// A worker's end. One exchange with all servers at a time; it goes on during test() and wait() only. A share
/// that is one run of float32 is sent from the arena and received in it, others are packed.
class PushPullWorker {
 public:
  /// Collective over `all`, with the servers' constructors. `shares`: by server; the same on all workers.
  PushPullWorker(const Communicator& all, std::vector<ServerShare> shares, PushPullWires wires);
  PushPullWorker(const PushPullWorker&) = delete;
  PushPullWorker& operator=(const PushPullWorker&) = delete;
  ~PushPullWorker();  ///< Waits for the exchange; nothing while an exception is being thrown.

  /// Begins to send `from`, an arena, which must stay as it is until the exchange is over: until the servers
  /// take the values, however many are on their way. So no worker gets ahead of a server by more than one
  /// push.
  void start_push(std::int64_t step, int batches, std::span<const float> from);
  /// Begins to fetch what servers own (`array`: of which of their arrays) into the arena `to`; what lies
  /// between stays.
  void start_pull(std::int64_t step, std::span<float> to, std::int64_t array = 0);
  /// Both in one request; the servers answer as their update mode has it.
  void start_push_pull(std::int64_t step, int batches, double learning_rate, std::span<const float> from,
                       std::span<float> to);
  bool test();      ///< Whether the exchange is over.
  void wait();      ///< Until it is.
  void farewell();  ///< Tells all servers that nothing more will come, after what is on its way.

  std::int64_t sent_bytes() const { return sent_bytes_; }  ///< Since the start, requests included.
  std::vector<int> missing_servers()
      const;  ///< Indices, whose values are waited for. Safe from another thread.

 private:
  struct Requests;
  struct Link {
    ServerShare share;
    std::size_t values = 0;
    std::vector<std::byte> outgoing{};
    std::vector<std::byte> incoming{};
  };

  void start(const PushPullRequest& head, std::span<const float> from, std::span<float> to);
  void send_values(std::size_t server, std::span<const float> from);
  void expect_values(std::size_t server, std::span<float> to);
  void finish(std::span<const int> indices);

  Communicator all_;
  PushPullWires wires_;
  std::vector<Link> links_;
  PushPullRequest head_;
  std::span<float> to_;
  std::unique_ptr<Requests> requests_;
  std::size_t pending_ = 0;
  std::int64_t sent_bytes_ = 0;
  std::vector<std::atomic<bool>> expected_;  ///< By server
};

}  // namespace flotilla::mpi
