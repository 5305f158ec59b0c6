// SPDX-License-Identifier: Apache-2.0
#include "mpi/push_pull/push_pull_server.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/backoff.hpp"
#include "mpi/core/native.hpp"
#include "mpi/push_pull/push_pull.hpp"

namespace flotilla::mpi {

/// @throws InternalError if a received message is shorter than `wanted` values of `type`; MPI itself reports
/// a message that is longer than its buffer
inline void require_whole(const MPI_Status& status, MPI_Datatype type, std::int64_t wanted,
                          const char* what) {
  int count = 0;
  check(MPI_Get_count(&status, type, &count), "MPI_Get_count");
  require(count == wanted, "rank ", status.MPI_SOURCE, " sends ", what, " of ", count, ", not ", wanted);
}

/// The MPI requests of a server, in one list for MPI_Testsome: the receive of the next worker's request, the
/// receives of the slots (one for each place of PushPullParts), and for each worker the receive of a payload,
/// the sends of an answer (one for each place), the send of a payload that answers.
struct PushPullRequests {
  static constexpr std::size_t places = PushPullParts::places;

  PushPullRequests(std::size_t slot_count, std::size_t worker_count)
      : all(1 + places * slot_count + (2 + places) * worker_count, MPI_REQUEST_NULL),
        finished(all.size()),
        statuses(all.size()),
        slots(slot_count),
        workers(worker_count) {}
  MPI_Request& listening() { return all.front(); }
  MPI_Request& of_slot(std::size_t slot, std::size_t place) { return all[1 + places * slot + place]; }
  MPI_Request& of_payload(int worker) { return all[first_payload() + static_cast<std::size_t>(worker)]; }
  std::span<MPI_Request> of_answer(int worker) {
    return std::span(all).subspan(first_answer() + places * static_cast<std::size_t>(worker), places);
  }
  MPI_Request& of_reply(int worker) { return all[first_reply() + static_cast<std::size_t>(worker)]; }
  std::size_t first_payload() const { return 1 + places * slots; }
  std::size_t first_answer() const { return first_payload() + workers; }  ///< Requests before it receive.
  std::size_t first_reply() const { return first_answer() + places * workers; }
  int size() const { return static_cast<int>(all.size()); }

  PushPullRequest arriving;  ///< The head that listening() receives
  std::vector<MPI_Request> all;
  std::vector<int> finished;  ///< MPI's lists of them
  std::vector<MPI_Status> statuses;
  std::size_t slots;
  std::size_t workers;
};

namespace {

/// Removes and returns the first; few are ever in there.
template <class T>
T take_first(std::vector<T>& queue) {
  T first = std::move(queue.front());
  queue.erase(queue.begin());
  return first;
}

}  // namespace

PushPullServer::PushPullServer(const Communicator& all, std::vector<int> workers, std::size_t values,
                               PushPullWires wires, ServerRoom room)
    : all_(push_pull_copy(all)),
      wires_(wires),
      in_parts_(room.parts),
      values_(values),
      workers_(workers.size()),
      answers_(workers.size()),
      worker_of_rank_(static_cast<std::size_t>(all.size()), -1),
      speaking_(static_cast<int>(workers.size())),
      left_(speaking_) {
  require(!workers.empty() && values <= largest_share, "a server of ", workers.size(), " workers and ",
          values, " values");
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    workers_[worker].rank = answers_[worker].rank = workers[worker];
    answers_[worker].parts = PushPullParts(wires.part_values);
    worker_of_rank_[static_cast<std::size_t>(workers[worker])] = static_cast<int>(worker);
  }
  const std::size_t near = wires.shared_memory ? share_memory(room.copies) : 0;
  // Values of float32 are read where they are shared; what has no answer is received all the same.
  const std::size_t needed =
      wires.push == Wire::float32 ? std::max<std::size_t>(workers.size() - near, 1) : workers.size();
  slots_.resize(room.slots > 0 ? static_cast<std::size_t>(room.slots) : needed);
  for (Slot& slot : slots_) {
    slot.parts = PushPullParts(wires.part_values);
    slot.values.resize(values);
    if (wires.push != Wire::float32) slot.encoded.resize(values * bytes_per_value(wires.push));
  }
  // A worker has at most one request that waits for buffers, one with a slot, one with the payload's buffer
  // and one without either.
  announced_.reserve(workers.size());
  ready_.reserve(slots_.size() + 3 * workers.size());
  requests_ = std::make_unique<PushPullRequests>(slots_.size(), workers.size());
  listen();
}

/// Collective over the host: this server's values, then the answer to each worker there.
/// @returns the number of workers there
std::size_t PushPullServer::share_memory(bool copies) {
  const HostRanks host(all_);
  const auto is_near = [&](const Answer& answer) { return host.has(answer.rank); };
  const auto near = static_cast<std::size_t>(std::ranges::count_if(answers_, is_near));
  std::size_t bytes = near > 0 ? PushPullWindow::rounded(values_ * sizeof(float)) : 0;
  for (Answer& answer : answers_) {
    if (!copies || !is_near(answer)) continue;
    answer.window_room = static_cast<std::int64_t>(bytes);
    bytes += PushPullWindow::rounded(values_ * bytes_per_value(wires_.pull));
  }
  window_.emplace(host, bytes);
  return near;
}

std::span<float> PushPullServer::shared_values() {
  if (!window_ || window_->mine().empty()) return {};
  return {reinterpret_cast<float*>(window_->mine().data()), values_};
}

PushPullServer::~PushPullServer() {
  if (std::uncaught_exceptions() > 0) abandon(requests_->all);  // and waits for nothing below
  for (std::size_t i = 0; i < requests_->first_answer(); ++i)
    if (requests_->all[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests_->all[i]);
  MPI_Waitall(requests_->size(), requests_->all.data(), MPI_STATUSES_IGNORE);
}

void PushPullServer::listen() {
  check(MPI_Irecv(&requests_->arriving, sizeof(PushPullRequest), MPI_BYTE, MPI_ANY_SOURCE, request_tag,
                  NativeHandle::of(all_), &requests_->listening()),
        "MPI_Irecv");
}

std::optional<WorkerRequest> PushPullServer::next() {
  constexpr int spins = 2000;  // A step's requests come within microseconds or take much longer.
  Backoff backoff(spins);
  while (left_ > 0) {
    if (auto request = poll()) return request;
    backoff.pause();
  }
  return std::nullopt;
}

std::optional<WorkerRequest> PushPullServer::poll() {
  if (ready_.empty()) progress();
  if (ready_.empty()) return std::nullopt;
  WorkerRequest request = take_first(ready_);
  if (request.head.kind == RequestKind::farewell) --left_;
  return request;
}

void PushPullServer::progress() {
  int count = 0;
  check(MPI_Testsome(requests_->size(), requests_->all.data(), &count, requests_->finished.data(),
                     requests_->statuses.data()),
        "MPI_Testsome");
  if (count == MPI_UNDEFINED) count = 0;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(requests_->finished[static_cast<std::size_t>(i)]);
    const MPI_Status& status = requests_->statuses[static_cast<std::size_t>(i)];
    if (index == 0) {
      const int rank = status.MPI_SOURCE;
      const int worker = worker_of_rank_[static_cast<std::size_t>(rank)];
      require(worker >= 0, "rank ", rank, " is no worker, but asks a server");
      require_whole(status, MPI_BYTE, sizeof(PushPullRequest), "a request");
      const PushPullRequest head = requests_->arriving;
      if (head.kind == RequestKind::farewell) --speaking_;
      if (speaking_ > 0) listen();
      take_request(worker, head);
    } else if (index < requests_->first_payload()) {
      const std::size_t slot = (index - 1) / PushPullRequests::places;
      const std::size_t place = (index - 1) % PushPullRequests::places;
      const auto [begin, end] = slots_[slot].parts.bounds(slots_[slot].parts.part_at(place));
      require_whole(status, carrier_of(wires_.push), static_cast<std::int64_t>(end - begin), "values");
      take_values(slot, place);
    } else if (index < requests_->first_answer()) {
      const std::size_t worker = index - requests_->first_payload();
      require_whole(status, MPI_BYTE, workers_[worker].head.payload_bytes, "a payload");
      take_part(static_cast<int>(worker));
    } else if (index < requests_->first_reply()) {
      const std::size_t answer = index - requests_->first_answer();
      answers_[answer / PushPullRequests::places].parts.end(answer % PushPullRequests::places);
      send_answer(static_cast<int>(answer / PushPullRequests::places));
    }
  }
}

void PushPullServer::take_request(int worker, const PushPullRequest& head) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  require(head.is_valid(), "worker ", worker, " sends a request of kind ",
          static_cast<std::int32_t>(head.kind), ", announces a payload of ", head.payload_bytes,
          " bytes and expects ", head.reply_bytes);
  if (from.coming) {
    require(!from.behind, "worker ", worker, " does not wait for its pushes to be taken");
    from.behind = head;
  } else if (head.pushes() || head.payload_bytes > 0) {
    from.coming = true;
    from.head = head;
    announced_.push_back(worker);
    start_receiving();
  } else {
    hand_out(worker, head, -1, true);
  }
}

/// Buffers for requests that were announced, first come, first served.
void PushPullServer::start_receiving() {
  std::erase_if(announced_, [&](int worker) { return start_receiving(worker); });
}

/// Begins to receive what comes with the worker's request, unless a buffer that it needs is in use.
bool PushPullServer::start_receiving(int worker) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  const bool shared = from.head.window_at >= 0;
  const bool needs_slot = from.head.pushes() && !(shared && wires_.push == Wire::float32);
  const auto slot = std::ranges::find(slots_, SlotState::free, &Slot::state);
  if (needs_slot && slot == slots_.end()) return false;
  if (from.head.payload_bytes > 0 && from.payload_taken) return false;
  from.missing = 0;
  from.slot = -1;
  if (needs_slot) {
    from.slot = static_cast<int>(slot - slots_.begin());
    slot->state = SlotState::receiving;
    slot->worker = worker;
    slot->parts.start(values_);
    slot->decoded = 0;
  }
  if (from.head.pushes() && !shared) {
    receive_values(worker);
    ++from.missing;
  }
  if (from.head.payload_bytes > 0) {
    const auto bytes = static_cast<std::size_t>(from.head.payload_bytes);
    if (from.payload.size() < bytes) from.payload.resize(bytes);
    check(MPI_Irecv(from.payload.data(), static_cast<int>(bytes), MPI_BYTE, from.rank, payload_tag,
                    NativeHandle::of(all_), &requests_->of_payload(worker)),
          "MPI_Irecv");
    ++from.missing;
  }
  if (from.missing == 0) complete(worker);
  return true;
}

/// Posts receives for parts of the worker's values, up to the number that may be in flight.
void PushPullServer::receive_values(int worker) {
  const Incoming& from = workers_[static_cast<std::size_t>(worker)];
  const auto index = static_cast<std::size_t>(from.slot);
  Slot& slot = slots_[index];
  const bool is_float = wires_.push == Wire::float32;
  std::byte* const to = is_float ? reinterpret_cast<std::byte*>(slot.values.data()) : slot.encoded.data();
  while (slot.parts.may_begin(values_)) {
    const std::size_t part = slot.parts.begin();
    const auto [begin, end] = slot.parts.bounds(part);
    check(MPI_Irecv(to + begin * bytes_per_value(wires_.push), static_cast<int>(end - begin),
                    carrier_of(wires_.push), from.rank, push_tag, NativeHandle::of(all_),
                    &requests_->of_slot(index, PushPullParts::place_of(part))),
          "MPI_Irecv");
  }
}

/// A part of them is here.
void PushPullServer::take_values(std::size_t slot, std::size_t place) {
  PushPullParts& parts = slots_[slot].parts;
  const int worker = slots_[slot].worker;
  parts.end(place);
  receive_values(worker);
  if (parts.all_over()) {
    take_part(worker);
  } else if (in_parts_ && parts.over() > 0) {
    hand_out(worker, workers_[static_cast<std::size_t>(worker)].head, static_cast<int>(slot), false);
  }
}

/// Values or a payload have been received; queues the request for next() when both have.
void PushPullServer::take_part(int worker) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  if (--from.missing > 0) return;
  complete(worker);
  if (const auto behind = std::exchange(from.behind, std::nullopt)) take_request(worker, *behind);
}

/// All that comes with the worker's request is here.
void PushPullServer::complete(int worker) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  hand_out(worker, from.head, from.slot, true);
  from.coming = false;
}

/// The values of a push: all of them, though only those that have arrived may be read.
std::span<const float> PushPullServer::values_of(const PushPullRequest& head, int index, int rank) {
  const bool is_float = wires_.push == Wire::float32;
  const std::byte* from = nullptr;
  if (head.window_at >= 0) {
    require(window_.has_value(), "a worker says that its values are shared, but no memory is");
    from = window_->announced(rank, head.window_at, values_ * bytes_per_value(wires_.push)).data();
    if (is_float) return {reinterpret_cast<const float*>(from), values_};
  }
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const std::size_t here = head.window_at >= 0 ? values_ : slot.parts.over();
  if (!is_float) {
    if (from == nullptr) from = slot.encoded.data();
    decode(wires_.push, from + slot.decoded * bytes_per_value(wires_.push),
           std::span(slot.values).subspan(slot.decoded, here - slot.decoded));
    slot.decoded = here;
  }
  return slot.values;
}

/// @param whole false: some of the values are here
void PushPullServer::hand_out(int worker, const PushPullRequest& head, int slot, bool whole) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  if (!std::exchange(from.begun, !whole)) {
    Answer& answer = answers_[static_cast<std::size_t>(worker)];
    if (head.pulls()) answer.awaits_values = true;
    answer.in_window = head.window_at >= 0;
    if (head.reply_bytes > 0) answer.awaited_payload = static_cast<std::size_t>(head.reply_bytes);
  }
  WorkerRequest request{.worker = worker, .head = head, .complete = whole, .slot = slot};
  if (head.pushes()) {
    request.values = values_of(head, slot, from.rank);
    request.here = whole ? values_ : slots_[static_cast<std::size_t>(slot)].parts.over();
  }
  if (whole && slot >= 0) slots_[static_cast<std::size_t>(slot)].state = SlotState::taken;
  if (whole && head.payload_bytes > 0) {
    request.payload = std::span(from.payload).first(static_cast<std::size_t>(head.payload_bytes));
    from.payload_taken = true;
  }
  const auto less = std::ranges::find_if(
      ready_, [&](const WorkerRequest& other) { return other.worker == worker && !other.complete; });
  if (less != ready_.end()) {
    *less = request;
  } else {
    ready_.push_back(request);
  }
}

void PushPullServer::release(const WorkerRequest& request) {
  if (request.slot >= 0) {
    Slot& slot = slots_.at(static_cast<std::size_t>(request.slot));
    require(slot.state == SlotState::taken && slot.worker == request.worker, "a slot is released twice");
    slot.state = SlotState::free;
  }
  if (!request.payload.empty()) {
    bool& taken = workers_.at(static_cast<std::size_t>(request.worker)).payload_taken;
    require(taken, "a payload is released twice");
    taken = false;
  }
  start_receiving();
}

void PushPullServer::answer(int worker, std::span<const float> values, std::size_t ready) {
  begin_answer(worker, values, ready);
  Answer& answer = answers_[static_cast<std::size_t>(worker)];
  std::byte* to = nullptr;
  if (answer.in_window) {
    require(answer.window_room >= 0, "a server that answers in place has no room for copies");
    answer.window_at = answer.window_room;
    to = window_->mine().data() + answer.window_room;
  } else {
    answer.copy.resize(values_ * bytes_per_value(wires_.pull));
    to = answer.copy.data();
  }
  encode(wires_.pull, values.subspan(answer.ready, ready - answer.ready),
         to + answer.ready * bytes_per_value(wires_.pull));
  answer.values = to;
  answer.ready = ready;
  send_answer(worker);
}

void PushPullServer::answer_in_place(int worker, std::span<const float> values, std::size_t ready) {
  require(wires_.pull == Wire::float32, "values are answered in place as ", name(wires_.pull));
  begin_answer(worker, values, ready);
  Answer& answer = answers_[static_cast<std::size_t>(worker)];
  if (answer.in_window) {
    require(values.data() == shared_values().data(), "what is answered in place lies elsewhere");
    answer.window_at = 0;
  }
  answer.values = reinterpret_cast<const std::byte*>(values.data());
  answer.ready = ready;
  send_answer(worker);
}

/// Begins the answer to the worker, unless that has been done.
void PushPullServer::begin_answer(int worker, std::span<const float> values, std::size_t ready) {
  Answer& answer = answers_.at(static_cast<std::size_t>(worker));
  if (!answer.sends) {
    require(answer.awaits_values, "worker ", worker, " did not ask for what it is sent");
    // It asked again, so its last answer has come, whether MPI has been asked about it or not.
    const std::span<MPI_Request> last = requests_->of_answer(worker);
    check(MPI_Waitall(static_cast<int>(last.size()), last.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    answer.parts.start(answer.in_window ? 0 : values_);
    answer.ready = 0;
    answer.sends = true;
  }
  require(values.size() == values_ && answer.ready <= ready && ready <= values_, "a server of ", values_,
          " values answers with ", values.size(), ", ", ready, " of them ready after ", answer.ready);
}

/// Sends parts of the answer, up to the number that may be in flight. A worker that reads it in the window
/// gets the offset, when all is there.
void PushPullServer::send_answer(int worker) {
  Answer& answer = answers_[static_cast<std::size_t>(worker)];
  if (!answer.sends || (answer.in_window && answer.ready < values_)) return;
  while (answer.parts.may_begin(answer.ready)) {
    const std::size_t part = answer.parts.begin();
    const auto [begin, end] = answer.parts.bounds(part);
    MPI_Request& request = requests_->of_answer(worker)[PushPullParts::place_of(part)];
    if (answer.in_window) {
      PushPullWindow::publish();
      check(MPI_Isend(&answer.window_at, 1, MPI_INT64_T, answer.rank, pull_tag, NativeHandle::of(all_),
                      &request),
            "MPI_Isend");
    } else {
      check(MPI_Isend(answer.values + begin * bytes_per_value(wires_.pull), static_cast<int>(end - begin),
                      carrier_of(wires_.pull), answer.rank, pull_tag, NativeHandle::of(all_), &request),
            "MPI_Isend");
    }
  }
  if (answer.parts.all_begun()) answer.sends = answer.awaits_values = false;
}

std::span<std::byte> PushPullServer::reply_room(int worker) {
  Answer& answer = answers_.at(static_cast<std::size_t>(worker));
  // It asked again, so its last answer has come.
  check(MPI_Wait(&requests_->of_reply(worker), MPI_STATUS_IGNORE), "MPI_Wait");
  if (answer.payload.size() < answer.awaited_payload) answer.payload.resize(answer.awaited_payload);
  return std::span(answer.payload).first(answer.awaited_payload);
}

void PushPullServer::answer_payload(int worker, std::span<const std::byte> bytes) {
  const std::span<std::byte> room = reply_room(worker);
  require(!room.empty() && bytes.size() == room.size(), "worker ", worker, " expects a payload of ",
          room.size(), " bytes and is sent ", bytes.size());
  if (bytes.data() != room.data()) std::ranges::copy(bytes, room.begin());
  Answer& answer = answers_[static_cast<std::size_t>(worker)];
  answer.awaited_payload = 0;
  check(MPI_Isend(room.data(), static_cast<int>(room.size()), MPI_BYTE, answer.rank, reply_tag,
                  NativeHandle::of(all_), &requests_->of_reply(worker)),
        "MPI_Isend");
}

}  // namespace flotilla::mpi
