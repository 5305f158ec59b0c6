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
#include "mpi/push_pull/push_pull_parts.hpp"
#include "mpi/push_pull/push_pull_window.hpp"

namespace flotilla::mpi {

/// What a worker asked for. A push has its values, and any request may have a payload.
struct WorkerRequest {
  int worker = 0;  ///< Index
  PushPullRequest head{};
  std::span<const float> values{};       ///< Valid until release(), and until it is answered
  std::size_t here = 0;                  ///< So many of them have come.
  bool complete = true;                  ///< All have, and the payload.
  std::span<const std::byte> payload{};  ///< Valid as values are; starts as new memory does
  int slot = -1;
};

/// What a server has room for.
struct ServerRoom {
  int slots = 0;       ///< For values that are received; 0: one for each worker that needs one
  bool copies = true;  ///< Where memory is shared: of answers; false: push-pulls are answered in place only
  bool parts = false;  ///< Pushes are handed out when their first values are here, and again with more.
};

/// A server's end: takes the workers' requests one by one, in the order of their arrival, a worker's own in
/// their order, each when all of it is here, unless parts of it are asked for. Values are received into
/// slots; while all are in use, those who push wait, and only they. With a slot for each worker, one that
/// stops while its values are on their way holds up no other. Payloads have a buffer for each worker, which
/// grows and never shrinks. For one thread.
class PushPullServer {
 public:
  /// Collective over `all`, with the workers' constructors.
  /// @param workers ranks in `all`, by index
  /// @param values that this server owns
  PushPullServer(const Communicator& all, std::vector<int> workers, std::size_t values, PushPullWires wires,
                 ServerRoom room = {});
  PushPullServer(const PushPullServer&) = delete;
  PushPullServer& operator=(const PushPullServer&) = delete;
  /// Withdraws what it still waits for. Collective over the host where memory is shared. Nothing while an
  /// exception is being thrown.
  ~PushPullServer();

  /// Where the server's values may lie so that workers of this host read them there when they are answered in
  /// place; none unless there are such workers and memory is shared.
  std::span<float> shared_values();

  /// Waits for the next request; none when all workers have said farewell, which are requests, too.
  std::optional<WorkerRequest> next();
  /// The next request if one is here; else none. Never waits.
  std::optional<WorkerRequest> poll();
  /// Gives the slot of a push to the next one, and the worker's payload buffer to its next request. Needed
  /// for every request that has values or a payload, when it is complete.
  void release(const WorkerRequest& request);

  /// Begins to send a worker that pulls all values of this server. They are copied: they may change at once.
  void answer(int worker, std::span<const float> values) { answer(worker, values, values.size()); }
  /// The same with the first `ready` of them, before the rest is known; then again with more, until all are.
  void answer(int worker, std::span<const float> values, std::size_t ready);
  /// Without a copy (float32 only): `values` stay until the worker's next request has come. Where memory is
  /// shared they are shared_values().
  void answer_in_place(int worker, std::span<const float> values) {
    answer_in_place(worker, values, values.size());
  }
  void answer_in_place(int worker, std::span<const float> values, std::size_t ready);

  /// Begins to send the payload that the worker's request expects, `reply_bytes` long. It is copied, unless
  /// it was written into reply_room().
  void answer_payload(int worker, std::span<const std::byte> bytes);
  /// Where that payload may be written: `reply_bytes` of the request, valid until it is answered.
  std::span<std::byte> reply_room(int worker);

  int workers_left() const { return left_; }  ///< Whose farewell next() has not handed out.

 private:
  struct Requests;
  enum class SlotState { free, receiving, taken };
  struct Slot {
    SlotState state = SlotState::free;
    int worker = -1;
    PushPullParts parts;
    std::size_t decoded = 0;  ///< Values
    std::vector<float> values{};
    std::vector<std::byte> encoded{};
  };
  struct Link {
    int rank = 0;
    PushPullRequest head{};                   ///< Of the request that is coming
    bool coming = false;                      ///< Announced and not all here
    int missing = 0;                          ///< Values, a payload: what is being received
    int slot = -1;                            ///< Of its values
    std::optional<PushPullRequest> behind{};  ///< The worker's next request came meanwhile
    bool begun = false;                       ///< A part was handed out
    bool awaits_values = false;
    bool answers = false;  ///< It is being sent them
    PushPullParts answered;
    std::size_t ready = 0;              ///< Values that may be sent
    const std::byte* answer = nullptr;  ///< Where they lie, as they travel
    std::size_t awaited_payload = 0;    ///< Bytes
    std::vector<std::byte> payload{};
    bool payload_taken = false;  ///< Handed out and not released
    std::vector<std::byte> outgoing{};
    std::vector<std::byte> reply{};
    bool near = false;              ///< Shares memory with this rank
    std::int64_t answer_room = -1;  ///< Where in this rank's part answers are copied to; −1: nowhere
    bool reads_window = false;      ///< The answer that it awaits
    std::int64_t answer_at = 0;     ///< What it is told
  };

  void share_memory(bool copies);
  void listen();
  void progress();
  void take_request(int worker, const PushPullRequest& head);
  void start_receiving();
  bool start_receiving(int worker);
  void receive_values(int worker);
  void take_values(std::size_t slot, std::size_t place);
  void take_part(int worker);
  void complete(int worker);
  void hand_out(int worker, const PushPullRequest& head, int slot, bool whole);
  std::span<const float> values_of(const PushPullRequest& head, int index, int rank);
  void begin_answer(int worker, std::span<const float> values, std::size_t ready);
  void send_answer(int worker);

  Communicator all_;
  PushPullWires wires_;
  bool in_parts_;
  std::optional<PushPullWindow> window_;
  std::size_t values_;
  std::vector<Link> links_;
  std::vector<int> worker_of_rank_;
  std::vector<Slot> slots_;
  PushPullRequest incoming_;
  int speaking_;                      ///< Workers whose farewell has not come
  int left_;                          ///< Whose farewell was not handed out
  std::vector<int> announced_;        ///< Workers whose request waits for buffers, in the order of arrival
  std::vector<WorkerRequest> ready_;  ///< Not yet handed out, likewise
  std::unique_ptr<Requests> requests_;
};

}  // namespace flotilla::mpi
