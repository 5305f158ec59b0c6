// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/slices.hpp"
#include "mpi/push_pull/push_pull.hpp"

namespace flotilla::mpi {

/// The part of a worker's arena that one server owns.
struct ServerShare {
  int rank = 0;                     ///< The server's
  std::vector<SliceBounds> runs{};  ///< Ascending, in floats of the arena

  std::size_t values() const;
};

/// A worker's step, as it pushes it.
struct PushedStep {
  std::int64_t step = 0;
  int batches = 1;  ///< Batches that are merged into the values; 0: the servers must not apply them
  double learning_rate = 0.0;
};

/// The worker's end. One exchange with all servers at a time; it progresses during test() and wait() only. A
/// share that is one run of float32 is sent from the arena and received in it, others are packed, part by
/// part. Values in shared memory are copied there, and from there, by the worker.
class PushPullWorker {
 public:
  /// Collective over `all`, with the servers' constructors. `shares`: by server; the same on all workers.
  PushPullWorker(const Communicator& all, std::vector<ServerShare> shares, PushPullWires wires);
  PushPullWorker(const PushPullWorker&) = delete;
  PushPullWorker& operator=(const PushPullWorker&) = delete;
  /// Waits for the exchange. Collective over the host where memory is shared. Nothing while an exception is
  /// being thrown.
  ~PushPullWorker();

  // Payloads: one for each server, or an empty span. All servers get a request in any case.

  /// Begins to fetch the servers' values into the arena `to`; the gaps between them are not written.
  void start_pull(std::int64_t step, std::span<float> to, std::span<const Payload> payloads = {});
  /// Pushes `from` and pulls into `to`, arenas, in one request; when the servers answer depends on their
  /// update mode. `from` must not change until the exchange is complete.
  void start_push_pull(const PushedStep& pushed, std::span<const float> from, std::span<float> to,
                       std::span<const Payload> payloads = {},
                       std::source_location where = std::source_location::current());
  /// Begins to fetch another array of the servers, 1, 2, …, with the layout of their values.
  void start_pull_array(std::int64_t step, std::int64_t array, std::span<float> to);
  /// Begins an exchange of payloads without values.
  void start_rows(std::int64_t step, std::span<const Payload> payloads);
  void start_command(std::int64_t step, std::span<const Payload> payloads);
  void start_pause(std::int64_t step);
  void wait();      ///< Waits until the exchange is over.
  void farewell();  ///< Sends all servers the last request, after those in flight.

  std::int64_t sent_bytes() const { return sent_bytes_; }  ///< Since the start, requests included.
  /// Indices of servers whose values or payloads are awaited. Safe from another thread.
  std::vector<int> missing_servers() const;

 private:
  struct Requests;
  /// The progress of packing or unpacking a share.
  struct Packed {
    std::size_t values = 0;
    std::size_t run = 0;
    std::size_t at = 0;  ///< Position within the run
  };
  struct Link {
    ServerShare share;
    std::size_t values = 0;
    PushPullRequest head{};
    PushPullParts pushed;
    PushPullParts pulled;
    Packed packed{};
    Packed unpacked{};
    std::vector<std::byte> outgoing{};
    std::vector<std::byte> incoming{};
    std::int64_t window_at = -1;  ///< Offset of its values in this rank's part; −1: none
    std::int64_t answer_at = 0;   ///< Offset in the server's part, as its answer names it
  };

  void share_memory();
  void start(const PushPullRequest& head, std::span<const float> from, std::span<float> to,
             std::span<const Payload> payloads);
  void set_head(std::size_t server, const PushPullRequest& head, std::span<const Payload> payloads);
  void send_head(std::size_t server);
  void send_payload(std::size_t server, std::span<const std::byte> payload);
  void expect_payload(std::size_t server, std::span<std::byte> to);
  void pack(Link& link, std::size_t end, std::byte* to) const;
  void unpack(Link& link, std::size_t end, const std::byte* from) const;
  void send_values(std::size_t server);
  void expect_answer(std::size_t server);
  void expect_values(std::size_t server);
  void take_values(std::size_t server, std::size_t place);
  void finish(std::span<const int> indices);

  Communicator all_;
  PushPullWires wires_;
  std::optional<PushPullWindow> window_;
  std::vector<Link> links_;
  std::span<const float> from_;
  std::span<float> to_;
  std::unique_ptr<Requests> requests_;
  std::size_t pending_ = 0;
  bool with_all_workers_ = false;  ///< The exchange waits for the other workers'
  std::int64_t sent_bytes_ = 0;
  std::vector<std::atomic<int>> expected_;  ///< By server: pending receives
};

}  // namespace flotilla::mpi
