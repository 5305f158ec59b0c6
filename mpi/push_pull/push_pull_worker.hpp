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
#include "mpi/push_pull/push_pull_parts.hpp"
#include "mpi/push_pull/push_pull_window.hpp"

namespace flotilla::mpi {

/// What one server owns of a worker's arena.
struct ServerShare {
  int rank = 0;                     ///< The server's
  std::vector<SliceBounds> runs{};  ///< Ascending, in floats of the arena

  std::size_t values() const;
};

/// A worker's end. One exchange with all servers at a time; it goes on during test() and wait() only. A share
/// that is one run of float32 is sent from the arena and received in it, others are packed, part by part.
/// What goes through shared memory is copied there, and from there, by the worker.
class PushPullWorker {
 public:
  /// Collective over `all`, with the servers' constructors. `shares`: by server; the same on all workers.
  PushPullWorker(const Communicator& all, std::vector<ServerShare> shares, PushPullWires wires);
  PushPullWorker(const PushPullWorker&) = delete;
  PushPullWorker& operator=(const PushPullWorker&) = delete;
  /// Waits for the exchange. Collective over the host where memory is shared. Nothing while an exception is
  /// being thrown.
  ~PushPullWorker();

  // Payloads: one for each server, or none at all. All servers get a request, whatever theirs is.

  /// Begins to send `from`, an arena, which must stay as it is until the exchange is over: until the servers
  /// take the values, however many are on their way. So no worker gets ahead of a server by more than one
  /// push.
  void start_push(std::int64_t step, int batches, std::span<const float> from,
                  std::span<const Payload> payloads = {});
  /// Begins to fetch what servers own into the arena `to`; what lies between stays.
  void start_pull(std::int64_t step, std::span<float> to, std::span<const Payload> payloads = {});
  /// Both in one request; the servers answer as their update mode has it.
  void start_push_pull(std::int64_t step, int batches, double learning_rate, std::span<const float> from,
                       std::span<float> to, std::span<const Payload> payloads = {},
                       std::source_location where = std::source_location::current());
  /// Begins to fetch another of the servers' arrays, 1, 2, …, that lie as their values do.
  void start_pull_array(std::int64_t step, std::int64_t array, std::span<float> to);
  /// Payloads without values.
  void start_rows(std::int64_t step, std::span<const Payload> payloads);
  void start_command(std::int64_t step, std::span<const Payload> payloads);
  void start_pause(std::int64_t step);
  void wait();      ///< Until it is.
  void farewell();  ///< Tells all servers that nothing more will come, after what is on its way.

  std::int64_t sent_bytes() const { return sent_bytes_; }  ///< Since the start, requests included.
  std::vector<int> missing_servers()
      const;  ///< Indices, whose values or payloads are waited for. Safe from another thread.

 private:
  struct Requests;
  /// How far a share has been packed or unpacked.
  struct Packed {
    std::size_t values = 0;
    std::size_t run = 0;
    std::size_t at = 0;  ///< In the run
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
    std::int64_t window_at = -1;  ///< Where in this rank's part values for this server go; −1: as messages
    std::int64_t answer_at = 0;   ///< Of the server's part: it says so
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
  std::vector<std::atomic<int>> expected_;  ///< By server: values, a payload
};

}  // namespace flotilla::mpi
