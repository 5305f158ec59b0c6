// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi/communicator.hpp"
#include "mpi/push_pull.hpp"

namespace flotilla::mpi {

/// What a worker asked for. A push has its values.
struct WorkerRequest {
  int worker = 0;  ///< Index
  PushPullRequest head{};
  std::span<const float> values{};  ///< Valid until release()
  int slot = -1;
};

/// A server's end: takes the workers' requests one by one, in the order of their arrival, a worker's own in
/// their order. Values are received into `slots` buffers; while all are in use, those who push wait, and only
/// they. With a slot for each worker, one that stops while its values are on their way holds up no other. For
/// one thread.
class PushPullServer {
 public:
  /// Collective over `all`, with the workers' constructors.
  /// @param workers ranks in `all`, by index
  /// @param values that this server owns
  /// @param slots 0: one for each worker
  PushPullServer(const Communicator& all, std::vector<int> workers, std::size_t values, PushPullWires wires,
                 int slots = 0);
  PushPullServer(const PushPullServer&) = delete;
  PushPullServer& operator=(const PushPullServer&) = delete;
  ~PushPullServer();  ///< Withdraws what it still waits for; nothing while an exception is being thrown.

  /// Waits for the next request; none when all workers have said farewell, which are requests, too.
  std::optional<WorkerRequest> next();
  void release(const WorkerRequest& request);  ///< Gives the slot of a push to the next one.

  /// Begins to send a worker that pulls all values of this server. They are copied: they may change at once.
  void answer(int worker, std::span<const float> values);
  /// The same without a copy (float32 only): `values` stay until the worker's next request has come.
  void answer_in_place(int worker, std::span<const float> values);

  int workers_left() const { return left_; }  ///< Whose farewell next() has not handed out.

 private:
  struct Requests;
  enum class SlotState { free, receiving, taken };
  struct Slot {
    SlotState state = SlotState::free;
    int worker = -1;
    PushPullRequest head{};
    std::vector<float> values{};
    std::vector<std::byte> encoded{};
  };
  struct Link {
    int rank = 0;
    bool push_is_coming = false;  ///< Announced and not all here
    bool awaits_answer = false;
    std::optional<PushPullRequest> behind_push{};  ///< The worker's next request came meanwhile
    std::vector<std::byte> outgoing{};
  };
  struct Announced {
    int worker = 0;
    PushPullRequest head{};
  };

  void listen();
  void progress();
  void take_request(int worker, const PushPullRequest& head);
  void take_values(std::size_t slot);
  void start_receiving();
  void deliver(int worker, const PushPullRequest& head, std::span<const float> values, int slot);
  void send(int worker, const std::byte* bytes);

  Communicator all_;
  PushPullWires wires_;
  std::size_t values_;
  std::vector<Link> links_;
  std::vector<int> worker_of_rank_;
  std::vector<Slot> slots_;
  PushPullRequest incoming_;
  int speaking_;                      ///< Workers whose farewell has not come
  int left_;                          ///< Whose farewell was not handed out
  std::vector<Announced> announced_;  ///< Pushes without a slot, in the order of their arrival
  std::vector<WorkerRequest> ready_;  ///< Not yet handed out, likewise
  std::unique_ptr<Requests> requests_;
};

}  // namespace flotilla::mpi
