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

/// That of the next request, the slots', and the workers': payloads, answers, payloads that answer.
struct PushPullServer::Requests {
  Requests(std::size_t slot_count, std::size_t worker_count)
      : all(1 + slot_count + 3 * worker_count, MPI_REQUEST_NULL),
        finished(all.size()),
        statuses(all.size()),
        slots(slot_count),
        workers(worker_count) {}
  MPI_Request& listening() { return all.front(); }
  MPI_Request& of_slot(std::size_t slot) { return all[1 + slot]; }
  MPI_Request& of_payload(int worker) { return all[first_payload() + static_cast<std::size_t>(worker)]; }
  MPI_Request& of_answer(int worker) {
    return all[first_payload() + workers + static_cast<std::size_t>(worker)];
  }
  MPI_Request& of_reply(int worker) {
    return all[first_payload() + 2 * workers + static_cast<std::size_t>(worker)];
  }
  std::size_t first_payload() const { return 1 + slots; }
  std::size_t receiving() const { return 1 + slots + workers; }  ///< The first of all: those that receive
  int size() const { return static_cast<int>(all.size()); }

  std::vector<MPI_Request> all;
  std::vector<int> finished;  ///< MPI's lists of them
  std::vector<MPI_Status> statuses;
  std::size_t slots;
  std::size_t workers;
};

PushPullServer::PushPullServer(const Communicator& all, std::vector<int> workers, std::size_t values,
                               PushPullWires wires, ServerRoom room)
    : all_(all.collective_clone()),
      wires_(wires),
      values_(values),
      links_(workers.size()),
      worker_of_rank_(static_cast<std::size_t>(all.size()), -1),
      speaking_(static_cast<int>(workers.size())),
      left_(speaking_) {
  require(!workers.empty() && values <= largest_share, "a server of ", workers.size(), " workers and ",
          values, " values");
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    links_[worker].rank = workers[worker];
    worker_of_rank_[static_cast<std::size_t>(workers[worker])] = static_cast<int>(worker);
  }
  if (wires.shared_memory) share_memory(room.copies);
  // Values of float32 are read where they are shared; what has no answer is received all the same.
  const auto far = static_cast<std::size_t>(std::ranges::count(links_, false, &Link::near));
  const std::size_t needed = wires.push == Wire::float32 ? std::max<std::size_t>(far, 1) : links_.size();
  slots_.resize(room.slots > 0 ? static_cast<std::size_t>(room.slots) : needed);
  for (Slot& slot : slots_) {
    slot.values.resize(values);
    if (wires.push != Wire::float32) slot.encoded.resize(values * bytes_per_value(wires.push));
  }
  // A worker has at most one request that waits for buffers, one with a slot, one with the payload's buffer
  // and one without either.
  announced_.reserve(workers.size());
  ready_.reserve(slots_.size() + 3 * workers.size());
  requests_ = std::make_unique<Requests>(slots_.size(), workers.size());
  listen();
}

/// Collective over the host: this server's values, then the answer to each worker there.
void PushPullServer::share_memory(bool copies) {
  const HostRanks host(all_);
  for (Link& link : links_) link.near = host.has(link.rank);
  std::size_t bytes = 0;
  if (std::ranges::any_of(links_, &Link::near)) bytes = PushPullWindow::rounded(values_ * sizeof(float));
  for (Link& link : links_) {
    if (!copies || !link.near) continue;
    link.answer_room = static_cast<std::int64_t>(bytes);
    bytes += PushPullWindow::rounded(values_ * bytes_per_value(wires_.pull));
  }
  window_.emplace(host, bytes);
}

std::span<float> PushPullServer::shared_values() {
  if (!window_ || window_->mine().empty()) return {};
  return {reinterpret_cast<float*>(window_->mine().data()), values_};
}

PushPullServer::~PushPullServer() {
  if (std::uncaught_exceptions() > 0) return;
  for (std::size_t i = 0; i < requests_->receiving(); ++i)
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
    if (index == 0) {
      const int rank = requests_->statuses[static_cast<std::size_t>(i)].MPI_SOURCE;
      const int worker = worker_of_rank_[static_cast<std::size_t>(rank)];
      require(worker >= 0, "rank ", rank, " is no worker, but asks a server");
      const PushPullRequest head = incoming_;
      if (head.kind == RequestKind::farewell) --speaking_;
      if (speaking_ > 0) listen();
      take_request(worker, head);
    } else if (index < requests_->first_payload()) {
      take_part(slots_[index - 1].worker);
    } else if (index < requests_->receiving()) {
      take_part(static_cast<int>(index - requests_->first_payload()));
    }
  }
}

void PushPullServer::take_request(int worker, const PushPullRequest& head) {
  Link& link = links_[static_cast<std::size_t>(worker)];
  const auto fits = [](std::int64_t bytes) {
    return bytes >= 0 && static_cast<std::size_t>(bytes) <= largest_payload;
  };
  require(fits(head.payload_bytes) && fits(head.reply_bytes), "worker ", worker, " announces a payload of ",
          head.payload_bytes, " bytes and expects ", head.reply_bytes);
  if (link.coming) {
    require(!link.behind, "worker ", worker, " does not wait for its pushes to be taken");
    link.behind = head;
  } else if (head.pushes() || head.payload_bytes > 0) {
    link.coming = true;
    link.head = head;
    announced_.push_back(worker);
    start_receiving();
  } else {
    deliver(worker, head, -1);
  }
}

/// Buffers for requests that were announced, first come, first served.
void PushPullServer::start_receiving() {
  std::erase_if(announced_, [&](int worker) { return start_receiving(worker); });
}

/// Begins to receive what comes with the worker's request, unless a buffer that it needs is in use.
bool PushPullServer::start_receiving(int worker) {
  Link& link = links_[static_cast<std::size_t>(worker)];
  const bool shared = link.head.window_at >= 0;
  const bool needs_slot = link.head.pushes() && !(shared && wires_.push == Wire::float32);
  const auto slot = std::ranges::find(slots_, SlotState::free, &Slot::state);
  if (needs_slot && slot == slots_.end()) return false;
  if (link.head.payload_bytes > 0 && link.payload_taken) return false;
  link.missing = 0;
  link.slot = -1;
  if (needs_slot) {
    link.slot = static_cast<int>(slot - slots_.begin());
    slot->state = SlotState::receiving;
    slot->worker = worker;
  }
  if (link.head.pushes() && !shared) {
    void* const to =
        wires_.push == Wire::float32 ? static_cast<void*>(slot->values.data()) : slot->encoded.data();
    check(MPI_Irecv(to, static_cast<int>(values_), carrier_of(wires_.push), link.rank, push_tag,
                    NativeHandle::of(all_), &requests_->of_slot(static_cast<std::size_t>(link.slot))),
          "MPI_Irecv");
    ++link.missing;
  }
  if (link.head.payload_bytes > 0) {
    const auto bytes = static_cast<std::size_t>(link.head.payload_bytes);
    if (link.payload.size() < bytes) link.payload.resize(bytes);
    check(MPI_Irecv(link.payload.data(), static_cast<int>(bytes), MPI_BYTE, link.rank, payload_tag,
                    NativeHandle::of(all_), &requests_->of_payload(worker)),
          "MPI_Irecv");
    ++link.missing;
  }
  if (link.missing == 0) hand_out(worker);
  return true;
}

/// Values or a payload are here; hands the request out when both are.
void PushPullServer::take_part(int worker) {
  Link& link = links_[static_cast<std::size_t>(worker)];
  if (--link.missing > 0) return;
  hand_out(worker);
  if (const auto behind = std::exchange(link.behind, std::nullopt)) take_request(worker, *behind);
}

/// All that comes with the worker's request is here.
void PushPullServer::hand_out(int worker) {
  Link& link = links_[static_cast<std::size_t>(worker)];
  deliver(worker, link.head, link.slot);
  link.coming = false;
}

/// Of a push that is all here.
std::span<const float> PushPullServer::values_of(const Link& link) {
  const bool is_float = wires_.push == Wire::float32;
  const std::byte* from = nullptr;
  if (link.head.window_at >= 0) {
    const std::size_t bytes = values_ * bytes_per_value(wires_.push);
    require(link.near && window_.has_value(), "a worker of another host says that its values are shared");
    from = window_->announced(link.rank, link.head.window_at, bytes).data();
    if (is_float) return {reinterpret_cast<const float*>(from), values_};
  }
  Slot& slot = slots_[static_cast<std::size_t>(link.slot)];
  slot.state = SlotState::taken;
  if (!is_float) decode(wires_.push, from != nullptr ? from : slot.encoded.data(), slot.values);
  return slot.values;
}

void PushPullServer::deliver(int worker, const PushPullRequest& head, int slot) {
  Link& link = links_[static_cast<std::size_t>(worker)];
  if (head.pulls()) link.awaits_values = true;
  link.reads_window = head.window_at >= 0;
  if (head.reply_bytes > 0) link.awaited_payload = static_cast<std::size_t>(head.reply_bytes);
  WorkerRequest request{.worker = worker, .head = head, .slot = slot};
  if (head.pushes()) request.values = values_of(link);
  if (head.payload_bytes > 0) {
    request.payload = std::span(link.payload).first(static_cast<std::size_t>(head.payload_bytes));
    link.payload_taken = true;
  }
  ready_.push_back(request);
}

void PushPullServer::release(const WorkerRequest& request) {
  if (request.slot >= 0) {
    Slot& slot = slots_.at(static_cast<std::size_t>(request.slot));
    require(slot.state == SlotState::taken && slot.worker == request.worker, "a slot is released twice");
    slot.state = SlotState::free;
  }
  if (!request.payload.empty()) {
    bool& taken = links_.at(static_cast<std::size_t>(request.worker)).payload_taken;
    require(taken, "a payload is released twice");
    taken = false;
  }
  start_receiving();
}

void PushPullServer::answer(int worker, std::span<const float> values) {
  Link& link = links_.at(static_cast<std::size_t>(worker));
  // It asked again, so its last answer has come, whether MPI has been asked about it or not.
  check(MPI_Wait(&requests_->of_answer(worker), MPI_STATUS_IGNORE), "MPI_Wait");
  require(values.size() == values_, "a server of ", values_, " values answers with ", values.size());
  if (link.reads_window) {
    require(link.answer_room >= 0, "a server that answers in place has no room for copies");
    encode(wires_.pull, values, window_->mine().data() + link.answer_room);
    point_to(worker, link.answer_room);
    return;
  }
  link.outgoing.resize(values_ * bytes_per_value(wires_.pull));
  encode(wires_.pull, values, link.outgoing.data());
  send(worker, link.outgoing.data());
}

void PushPullServer::answer_in_place(int worker, std::span<const float> values) {
  require(wires_.pull == Wire::float32 && values.size() == values_, "a server of ", values_,
          " values answers with ", values.size(), " in place, as ", word_of(wires_.pull));
  check(MPI_Wait(&requests_->of_answer(worker), MPI_STATUS_IGNORE), "MPI_Wait");
  if (links_.at(static_cast<std::size_t>(worker)).reads_window) {
    require(values.data() == shared_values().data(), "what is answered in place lies elsewhere");
    point_to(worker, 0);
    return;
  }
  send(worker, values.data());
}

/// The worker reads its answer at that place of this rank's part of the window.
void PushPullServer::point_to(int worker, std::int64_t at) {
  std::int64_t& told = links_[static_cast<std::size_t>(worker)].answer_at;
  told = at;
  PushPullWindow::publish();
  send(worker, &told);
}

/// The values, or to who reads them in the window where they lie.
void PushPullServer::send(int worker, const void* bytes) {
  Link& link = links_[static_cast<std::size_t>(worker)];
  require(link.awaits_values, "worker ", worker, " did not ask for what it is sent");
  link.awaits_values = false;
  const int count = link.reads_window ? 1 : static_cast<int>(values_);
  check(MPI_Isend(bytes, count, link.reads_window ? MPI_INT64_T : carrier_of(wires_.pull), link.rank,
                  pull_tag, NativeHandle::of(all_), &requests_->of_answer(worker)),
        "MPI_Isend");
}

std::span<std::byte> PushPullServer::reply_room(int worker) {
  Link& link = links_.at(static_cast<std::size_t>(worker));
  // It asked again, so its last answer has come.
  check(MPI_Wait(&requests_->of_reply(worker), MPI_STATUS_IGNORE), "MPI_Wait");
  if (link.reply.size() < link.awaited_payload) link.reply.resize(link.awaited_payload);
  return std::span(link.reply).first(link.awaited_payload);
}

void PushPullServer::answer_payload(int worker, std::span<const std::byte> bytes) {
  const std::span<std::byte> room = reply_room(worker);
  require(!room.empty() && bytes.size() == room.size(), "worker ", worker, " expects a payload of ",
          room.size(), " bytes and is sent ", bytes.size());
  if (bytes.data() != room.data()) std::ranges::copy(bytes, room.begin());
  Link& link = links_[static_cast<std::size_t>(worker)];
  link.awaited_payload = 0;
  check(MPI_Isend(room.data(), static_cast<int>(room.size()), MPI_BYTE, link.rank, reply_tag,
                  NativeHandle::of(all_), &requests_->of_reply(worker)),
        "MPI_Isend");
}

}  // namespace flotilla::mpi
