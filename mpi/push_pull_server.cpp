// SPDX-License-Identifier: Apache-2.0
#include "mpi/push_pull_server.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/backoff.hpp"
#include "mpi/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr int spins = 2000;  // A step's requests come within microseconds or take much longer.

/// Removes and returns the first; few are ever in there.
template <class T>
T take_first(std::vector<T>& queue) {
  T first = std::move(queue.front());
  queue.erase(queue.begin());
  return first;
}

}  // namespace

/// That of the next request, the slots', the answers'.
struct PushPullServer::Requests {
  Requests(std::size_t slot_count, std::size_t workers)
      : all(1 + slot_count + workers, MPI_REQUEST_NULL),
        finished(all.size()),
        statuses(all.size()),
        slots(slot_count) {}
  MPI_Request& listening() { return all.front(); }
  MPI_Request& of_slot(std::size_t slot) { return all[1 + slot]; }
  MPI_Request& of_answer(int worker) { return all[1 + slots + static_cast<std::size_t>(worker)]; }
  int size() const { return static_cast<int>(all.size()); }

  std::vector<MPI_Request> all;
  std::vector<int> finished;  ///< MPI's lists of them
  std::vector<MPI_Status> statuses;
  std::size_t slots;
};

PushPullServer::PushPullServer(const Communicator& all, std::vector<int> workers, std::size_t values,
                               PushPullWires wires, int slots)
    : all_(all.collective_clone()),
      wires_(wires),
      values_(values),
      links_(workers.size()),
      worker_of_rank_(static_cast<std::size_t>(all.size()), -1),
      slots_(slots > 0 ? static_cast<std::size_t>(slots) : workers.size()),
      speaking_(static_cast<int>(workers.size())),
      left_(speaking_) {
  require(!workers.empty() && values <= largest_share, "a server of ", workers.size(), " workers and ",
          values, " values");
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    links_[worker].rank = workers[worker];
    worker_of_rank_[static_cast<std::size_t>(workers[worker])] = static_cast<int>(worker);
  }
  for (Slot& slot : slots_) {
    slot.values.resize(values);
    if (wires.push != Wire::float32) slot.encoded.resize(values * bytes_per_value(wires.push));
  }
  // A worker has at most one push without a slot, and one request behind it.
  announced_.reserve(workers.size());
  ready_.reserve(slots_.size() + 2 * workers.size());
  requests_ = std::make_unique<Requests>(slots_.size(), workers.size());
  listen();
}

PushPullServer::~PushPullServer() {
  if (std::uncaught_exceptions() > 0) return;
  for (std::size_t i = 0; i < 1 + slots_.size(); ++i)
    if (requests_->all[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests_->all[i]);
  MPI_Waitall(requests_->size(), requests_->all.data(), MPI_STATUSES_IGNORE);
}

void PushPullServer::listen() {
  check(MPI_Irecv(&incoming_, sizeof(incoming_), MPI_BYTE, MPI_ANY_SOURCE, request_tag,
                  NativeHandle::of(all_), &requests_->listening()),
        "MPI_Irecv");
}

std::optional<WorkerRequest> PushPullServer::next() {
  Backoff backoff(spins);
  while (ready_.empty()) {
    if (left_ == 0) return std::nullopt;
    progress();
    if (ready_.empty()) backoff.pause();
  }
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
    if (index == 0) {
      const int rank = requests_->statuses[static_cast<std::size_t>(i)].MPI_SOURCE;
      const int worker = worker_of_rank_[static_cast<std::size_t>(rank)];
      require(worker >= 0, "rank ", rank, " is no worker, but asks a server");
      const PushPullRequest head = incoming_;
      if (head.kind == RequestKind::farewell) --speaking_;
      if (speaking_ > 0) listen();
      take_request(worker, head);
    } else if (index <= slots_.size()) {
      take_values(index - 1);
    }
  }
}

void PushPullServer::take_request(int worker, const PushPullRequest& head) {
  Link& link = links_[static_cast<std::size_t>(worker)];
  if (link.push_is_coming) {
    require(!link.behind_push, "worker ", worker, " does not wait for its pushes to be taken");
    link.behind_push = head;
  } else if (head.kind == RequestKind::push || head.kind == RequestKind::push_pull) {
    link.push_is_coming = true;
    announced_.push_back({worker, head});
    start_receiving();
  } else {
    deliver(worker, head, {}, -1);
  }
}

/// Slots for pushes that were announced, first come, first served.
void PushPullServer::start_receiving() {
  for (std::size_t i = 0; i < slots_.size() && !announced_.empty(); ++i) {
    Slot& slot = slots_[i];
    if (slot.state != SlotState::free) continue;
    const Announced next = take_first(announced_);
    slot.state = SlotState::receiving;
    slot.worker = next.worker;
    slot.head = next.head;
    const bool plain = wires_.push == Wire::float32;
    void* to = plain ? static_cast<void*>(slot.values.data()) : slot.encoded.data();
    check(MPI_Irecv(to, static_cast<int>(values_), carrier_of(wires_.push),
                    links_[static_cast<std::size_t>(next.worker)].rank, push_tag, NativeHandle::of(all_),
                    &requests_->of_slot(i)),
          "MPI_Irecv");
  }
}

void PushPullServer::take_values(std::size_t index) {
  Slot& slot = slots_[index];
  slot.state = SlotState::taken;
  if (wires_.push != Wire::float32) decode(wires_.push, slot.encoded.data(), slot.values);
  deliver(slot.worker, slot.head, slot.values, static_cast<int>(index));
  Link& link = links_[static_cast<std::size_t>(slot.worker)];
  link.push_is_coming = false;
  if (const auto behind = std::exchange(link.behind_push, std::nullopt)) take_request(slot.worker, *behind);
}

void PushPullServer::deliver(int worker, const PushPullRequest& head, std::span<const float> values,
                             int slot) {
  if (head.kind == RequestKind::pull || head.kind == RequestKind::push_pull)
    links_[static_cast<std::size_t>(worker)].awaits_answer = true;
  ready_.push_back({.worker = worker, .head = head, .values = values, .slot = slot});
}

void PushPullServer::release(const WorkerRequest& request) {
  if (request.slot < 0) return;
  Slot& slot = slots_.at(static_cast<std::size_t>(request.slot));
  require(slot.state == SlotState::taken && slot.worker == request.worker, "a slot is released twice");
  slot.state = SlotState::free;
  start_receiving();
}

void PushPullServer::answer(int worker, std::span<const float> values) {
  std::vector<std::byte>& outgoing = links_.at(static_cast<std::size_t>(worker)).outgoing;
  // It asked again, so its last answer has come, whether MPI has been asked about it or not.
  check(MPI_Wait(&requests_->of_answer(worker), MPI_STATUS_IGNORE), "MPI_Wait");
  outgoing.resize(values_ * bytes_per_value(wires_.pull));
  require(values.size() == values_, "a server of ", values_, " values answers with ", values.size());
  encode(wires_.pull, values, outgoing.data());
  send(worker, outgoing.data());
}

void PushPullServer::answer_in_place(int worker, std::span<const float> values) {
  require(wires_.pull == Wire::float32 && values.size() == values_, "a server of ", values_,
          " values answers with ", values.size(), " in place, as ", word_of(wires_.pull));
  check(MPI_Wait(&requests_->of_answer(worker), MPI_STATUS_IGNORE), "MPI_Wait");
  send(worker, reinterpret_cast<const std::byte*>(values.data()));
}

void PushPullServer::send(int worker, const std::byte* bytes) {
  Link& link = links_[static_cast<std::size_t>(worker)];
  require(link.awaits_answer, "worker ", worker, " did not ask for what it is sent");
  link.awaits_answer = false;
  check(MPI_Isend(bytes, static_cast<int>(values_), carrier_of(wires_.pull), link.rank, pull_tag,
                  NativeHandle::of(all_), &requests_->of_answer(worker)),
        "MPI_Isend");
}

}  // namespace flotilla::mpi
