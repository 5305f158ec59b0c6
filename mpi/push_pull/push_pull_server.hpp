// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/push_pull/push_pull.hpp"

namespace flotilla::mpi {

struct PushPullRequests;
struct FinishedRequest;

/// A request of a worker. A push has its values, and any request may have a payload.
struct WorkerRequest {
  int worker = 0;  ///< Index
  PushPullRequest head{};
  std::span<const float> values{};       ///< Valid until release() or the answer, the earlier of them
  std::size_t here = 0;                  ///< Number of values that were received
  bool complete = true;                  ///< All values and the payload were received
  std::span<const std::byte> payload{};  ///< Valid as long as `values`; aligned as new memory
};

/// Buffers of a server.
struct ServerRoom {
  bool copies = true;  ///< Buffers for answers in shared memory; false: answers are in place
  bool parts = false;  ///< next() returns pushes when their first values are here, and again with more.
};

/// The server's end: receives the workers' requests in the order of arrival, each when it is complete, unless
/// parts are asked for. A worker that stops while it sends delays no other. Buffers are made when messages
/// need them, grow and never shrink, and serve the next messages, of any worker. For one thread.
class PushPullServer {
 public:
  /// Collective over `all`, with the workers' constructors.
  /// @param workers ranks in `all`, by index
  /// @param values that this server owns
  PushPullServer(const Communicator& all, std::vector<int> workers, std::size_t values, PushPullWires wires,
                 ServerRoom room = {});
  PushPullServer(const PushPullServer&) = delete;
  PushPullServer& operator=(const PushPullServer&) = delete;
  /// Cancels pending receives. Collective over the host where memory is shared. Does nothing while an
  /// exception is being thrown.
  ~PushPullServer();

  /// Shared memory for the server's values, from which workers of this host read them when they are answered
  /// in place; empty unless there are such workers and memory is shared.
  std::span<float> shared_values();

  /// Waits for the next request, farewells included; none when all workers have said farewell.
  std::optional<WorkerRequest> next();
  /// The next request if one is found among some of what is outstanding, otherwise none. Never waits.
  std::optional<WorkerRequest> poll();
  /// Frees the buffers of a request. To be called for every request that has values or a payload, when it is
  /// complete: the worker's next one may need to wait for it.
  void release(const WorkerRequest& request);

  /// Begins to send all values of this server to a worker that pulls. They are copied: they may change at
  /// once.
  void answer(int worker, std::span<const float> values) { answer(worker, values, values.size()); }
  /// Sends the first `ready` values while the rest is not known yet; called again with more, until all are
  /// sent.
  void answer(int worker, std::span<const float> values, std::size_t ready);
  /// Answers without a copy (float32 only): `values` must not change until the worker's next request. With
  /// shared memory they must be shared_values().
  void answer_in_place(int worker, std::span<const float> values) {
    answer_in_place(worker, values, values.size());
  }
  void answer_in_place(int worker, std::span<const float> values, std::size_t ready);

  /// Begins to send the payload that the worker's request expects, `reply_bytes` long. It is copied, unless
  /// it was written into reply_room().
  void answer_payload(int worker, std::span<const std::byte> bytes);
  /// A buffer for the payload of an answer: `reply_bytes` of the request, valid until it is answered.
  std::span<std::byte> reply_room(int worker);

  int workers_left() const { return left_; }  ///< Workers whose farewell next() has not returned.

 private:
  /// A message arriving from a worker.
  struct Incoming {
    int rank = 0;
    PushPullRequest head{};                   ///< The request that is being received
    bool coming = false;                      ///< A request is being received
    int missing = 0;                          ///< Receives that are not complete: values, a payload
    std::optional<PushPullRequest> behind{};  ///< The worker's next request, received meanwhile
    bool begun = false;                       ///< next() has returned a part
    bool taken = false;  ///< Its values or payload were returned by next() and are not released
    PushPullParts parts;
    std::size_t decoded = 0;          ///< Values
    std::vector<std::byte> values{};  ///< Floats, and behind them what is received in another wire's format
    std::vector<std::byte> payload{};
  };
  /// A reply to a worker.
  struct Answer {
    int rank = 0;
    bool awaits_values = false;
    bool sends = false;  ///< Values are being sent
    PushPullParts parts;
    std::size_t ready = 0;              ///< Values that may be sent
    const std::byte* values = nullptr;  ///< Encoded
    std::vector<std::byte> copy{};      ///< Copy of the values, unless they are answered in place
    bool in_window = false;             ///< The worker reads the values in shared memory
    std::int64_t window_room = -1;      ///< Offset in this rank's part for copies; −1: none
    std::int64_t window_at = 0;         ///< Offset of the values, as sent to the worker
    std::size_t awaited_payload = 0;    ///< Bytes
    std::vector<std::byte> payload{};
  };

  void share_memory(bool copies);
  void listen();
  void progress();
  void test(std::span<const std::size_t> indices);
  void take(const FinishedRequest& finished);
  void catch_up(int worker);
  void take_request(int worker, const PushPullRequest& head);
  void start_receiving(int worker);
  std::byte* received(Incoming& from) const;
  void receive_values(int worker);
  void take_values(int worker, std::size_t place);
  void take_part(int worker);
  void complete(int worker);
  void hand_out(int worker, const PushPullRequest& head, bool whole);
  std::span<const float> values_of(const PushPullRequest& head, Incoming& from);
  void begin_answer(int worker, std::span<const float> values, std::size_t ready);
  void send_answer(int worker);

  Communicator all_;
  PushPullWires wires_;
  bool in_parts_;
  std::optional<PushPullWindow> window_;
  std::size_t values_;
  std::vector<Incoming> workers_;  ///< By worker
  std::vector<Answer> answers_;    ///< By worker
  std::vector<int> worker_of_rank_;
  int speaking_;                      ///< Workers whose farewell has not come
  int left_;                          ///< Workers whose farewell next() has not returned
  std::vector<WorkerRequest> ready_;  ///< Requests that next() has not returned, by arrival
  std::unique_ptr<PushPullRequests> requests_;
};

}  // namespace flotilla::mpi
