// SPDX-License-Identifier: Apache-2.0
#include "mpi/push_pull/push_pull_server.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
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
#include "mpi/push_pull/push_pull_requests.hpp"

namespace flotilla::mpi {

/// @throws InternalError if a received message is shorter than `wanted` values of `type`; MPI itself reports
/// a message that is longer than its buffer
inline void require_whole(const MPI_Status& status, MPI_Datatype type, std::int64_t wanted,
                          const char* what) {
  int count = 0;
  check(MPI_Get_count(&status, type, &count), "MPI_Get_count");
  require(count == wanted, "rank ", status.MPI_SOURCE, " sends ", what, " of ", count, ", not ", wanted);
}

/// A request that MPI has finished, and what it says of it.
struct FinishedRequest {
  std::size_t index;
  const MPI_Status& status;
};

namespace {

/// Removes and returns the first; few are ever in there.
template <class T>
T take_first(std::vector<T>& queue) {
  T first = std::move(queue.front());
  queue.erase(queue.begin());
  return first;
}

/// Whether values or a payload come with the request.
bool needs_buffers(const PushPullRequest& head) {
  return head.pushes() || head.payload_bytes > 0;
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
    workers_[worker].parts = answers_[worker].parts = PushPullParts(wires.part_values);
    worker_of_rank_[static_cast<std::size_t>(workers[worker])] = static_cast<int>(worker);
  }
  if (wires.shared_memory) share_memory(room.copies);
  requests_ = std::make_unique<PushPullRequests>(workers.size());
  ready_.reserve(2 * PushPullRequests::most_tested);
  listen();
}

/// Collective over the host: this server's values, then the answer to each worker there.
void PushPullServer::share_memory(bool copies) {
  const HostRanks host(all_);
  const auto is_near = [&](const Answer& answer) { return host.has(answer.rank); };
  std::size_t bytes =
      std::ranges::any_of(answers_, is_near) ? PushPullWindow::rounded(values_ * sizeof(float)) : 0;
  for (Answer& answer : answers_) {
    if (!copies || !is_near(answer)) continue;
    answer.window_room = static_cast<std::int64_t>(bytes);
    bytes += PushPullWindow::rounded(values_ * bytes_per_value(wires_.pull));
  }
  window_.emplace(host, bytes);
}

std::span<float> PushPullServer::shared_values() {
  if (!window_ || window_->mine().empty()) return {};
  return {reinterpret_cast<float*>(window_->mine().data()), values_};
}

PushPullServer::~PushPullServer() {
  if (std::uncaught_exceptions() > 0) abandon(requests_->all);  // and waits for nothing below
  for (std::size_t i = 0; i < requests_->all.size(); ++i) {
    const bool receives = i == 0 || (i - 1) % PushPullRequests::parts < PushPullRequests::reply;
    if (receives && requests_->all[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests_->all[i]);
  }
  MPI_Waitall(static_cast<int>(requests_->all.size()), requests_->all.data(), MPI_STATUSES_IGNORE);
}

void PushPullServer::listen() {
  check(MPI_Irecv(&requests_->arriving, sizeof(PushPullRequest), MPI_BYTE, MPI_ANY_SOURCE, request_tag,
                  NativeHandle::of(all_), &requests_->all.front()),
        "MPI_Irecv");
}

std::optional<WorkerRequest> PushPullServer::next() {
  constexpr int spins = 2000;  // A step's requests come within microseconds or take much longer.
  Backoff backoff(spins);
  while (left_ > 0) {
    if (auto request = poll()) return request;
    if (requests_->turn == 0) backoff.pause();  // All have had their turn.
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
  PushPullRequests& requests = *requests_;
  const std::size_t end = requests.turn > 0 ? requests.turn : requests.outstanding.size();
  const std::size_t first = end - std::min(end, PushPullRequests::most_tested - 1);
  std::array<std::size_t, PushPullRequests::most_tested> indices{};  // The last: the next worker's request.
  std::copy_n(requests.outstanding.begin() + static_cast<std::ptrdiff_t>(first), end - first,
              indices.begin());
  test(std::span(indices).first(end - first + 1));
  for (std::size_t i = end; i-- > first;) {
    if (requests.all[requests.outstanding[i]] != MPI_REQUEST_NULL) continue;
    requests.listed[requests.outstanding[i]] = false;
    requests.outstanding[i] = requests.outstanding.back();  // It has had its turn, or is new.
    requests.outstanding.pop_back();
  }
  requests.turn = first;
}

/// Asks MPI about these requests, and takes what has come.
void PushPullServer::test(std::span<const std::size_t> indices) {
  std::array<MPI_Request, PushPullRequests::most_tested> tested;
  std::array<int, PushPullRequests::most_tested> finished;
  std::array<MPI_Status, PushPullRequests::most_tested> statuses;
  std::vector<MPI_Request>& all = requests_->all;
  std::ranges::transform(indices, tested.begin(), [&](std::size_t index) { return all[index]; });
  int count = 0;
  const int code =
      MPI_Testsome(static_cast<int>(indices.size()), tested.data(), &count, finished.data(), statuses.data());
  for (std::size_t i = 0; i < indices.size(); ++i) all[indices[i]] = tested[i];
  check(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED) count = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    take({indices[static_cast<std::size_t>(finished[i])], statuses[i]});
}

void PushPullServer::take(const FinishedRequest& finished) {
  const auto& [index, status] = finished;
  if (index == 0) {
    const int worker = worker_of_rank_[static_cast<std::size_t>(status.MPI_SOURCE)];
    require(worker >= 0, "rank ", status.MPI_SOURCE, " is no worker, but asks a server");
    require_whole(status, MPI_BYTE, sizeof(PushPullRequest), "a request");
    const PushPullRequest head = requests_->arriving;
    if (head.kind == RequestKind::farewell) --speaking_;
    if (speaking_ > 0) listen();
    if (workers_[static_cast<std::size_t>(worker)].coming) catch_up(worker);
    take_request(worker, head);
    return;
  }
  const auto worker = static_cast<int>((index - 1) / PushPullRequests::parts);
  const std::size_t part = (index - 1) % PushPullRequests::parts;
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  Answer& answer = answers_[static_cast<std::size_t>(worker)];
  if (part == PushPullRequests::payload) {
    require_whole(status, MPI_BYTE, from.head.payload_bytes, "a payload");
    take_part(worker);
  } else if (part < PushPullRequests::reply) {
    const std::size_t place = part - PushPullRequests::push;
    const auto [begin, end] = from.parts.bounds(from.parts.part_at(place));
    require_whole(status, carrier_of(wires_.push), static_cast<std::int64_t>(end - begin), "values");
    take_values(worker, place);
  } else if (part == PushPullRequests::reply) {
    requests_->payloads.give_back(answer.payload);
  } else {
    answer.parts.end(part - PushPullRequests::answer);
    if (answer.parts.all_over()) requests_->copies.give_back(answer.copy);
    send_answer(worker);
  }
}

/// Takes what has come of the worker's request before the next one, which is here: it may not have had its
/// turn yet.
void PushPullServer::catch_up(int worker) {
  std::array<std::size_t, PushPullRequests::reply> indices;
  for (std::size_t part = 0; part < indices.size(); ++part)
    indices[part] = PushPullRequests::index(worker, part);
  test(indices);
}

void PushPullServer::take_request(int worker, const PushPullRequest& head) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  require(head.is_valid(), "worker ", worker, " sends a request of kind ",
          static_cast<std::int32_t>(head.kind), ", announces a payload of ", head.payload_bytes,
          " bytes and expects ", head.reply_bytes);
  if (from.coming) {
    require(!from.behind, "worker ", worker, " does not wait for its pushes to be taken");
    from.behind = head;
  } else if (needs_buffers(head)) {
    from.coming = true;
    from.head = head;
    if (!from.taken) start_receiving(worker);
  } else {
    hand_out(worker, head, true);
  }
}

/// Begins to receive what comes with the worker's request.
void PushPullServer::start_receiving(int worker) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  const bool shared = from.head.window_at >= 0;
  from.missing = 0;
  if (from.head.pushes()) {
    const std::size_t received = wires_.push == Wire::float32 ? 0 : bytes_per_value(wires_.push);
    if (!shared || received > 0) requests_->values.take(from.values, values_ * (sizeof(float) + received));
    from.parts.start(values_);
    from.decoded = 0;
    if (!shared) ++from.missing;
    if (!shared) receive_values(worker);
  }
  if (from.head.payload_bytes > 0) {
    const auto bytes = static_cast<std::size_t>(from.head.payload_bytes);
    check(
        MPI_Irecv(requests_->payloads.take(from.payload, bytes), static_cast<int>(bytes), MPI_BYTE, from.rank,
                  payload_tag, NativeHandle::of(all_), &requests_->begin(worker, PushPullRequests::payload)),
        "MPI_Irecv");
    ++from.missing;
  }
  if (from.missing == 0) complete(worker);
}

/// Where values are received: behind the floats unless they are those.
std::byte* PushPullServer::received(Incoming& from) const {
  return from.values.data() + (wires_.push == Wire::float32 ? 0 : values_ * sizeof(float));
}

/// Posts receives for parts of the worker's values, up to the number that may be in flight.
void PushPullServer::receive_values(int worker) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  while (from.parts.may_begin(values_)) {
    const std::size_t part = from.parts.begin();
    const auto [begin, end] = from.parts.bounds(part);
    check(MPI_Irecv(received(from) + begin * bytes_per_value(wires_.push), static_cast<int>(end - begin),
                    carrier_of(wires_.push), from.rank, push_tag, NativeHandle::of(all_),
                    &requests_->begin(worker, PushPullRequests::push + PushPullParts::place_of(part))),
          "MPI_Irecv");
  }
}

/// A part of them is here.
void PushPullServer::take_values(int worker, std::size_t place) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  from.parts.end(place);
  receive_values(worker);
  if (from.parts.all_over()) {
    take_part(worker);
  } else if (in_parts_ && from.parts.over() > 0) {
    hand_out(worker, from.head, false);
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
  hand_out(worker, from.head, true);
  from.coming = false;
}

/// The values of a push: all of them, though only those that have arrived may be read.
std::span<const float> PushPullServer::values_of(const PushPullRequest& head, Incoming& from) {
  const bool is_float = wires_.push == Wire::float32;
  const std::byte* encoded = received(from);
  if (head.window_at >= 0) {
    require(window_.has_value(), "a worker says that its values are shared, but no memory is");
    encoded = window_->announced(from.rank, head.window_at, values_ * bytes_per_value(wires_.push)).data();
    if (is_float) return {reinterpret_cast<const float*>(encoded), values_};
  }
  const std::span<float> values(reinterpret_cast<float*>(from.values.data()), values_);
  const std::size_t here = head.window_at >= 0 ? values_ : from.parts.over();
  if (!is_float) {
    decode(wires_.push, encoded + from.decoded * bytes_per_value(wires_.push),
           values.subspan(from.decoded, here - from.decoded));
    from.decoded = here;
  }
  return values;
}

/// @param whole false: some of the values are here
void PushPullServer::hand_out(int worker, const PushPullRequest& head, bool whole) {
  Incoming& from = workers_[static_cast<std::size_t>(worker)];
  if (!std::exchange(from.begun, !whole)) {
    Answer& answer = answers_[static_cast<std::size_t>(worker)];
    if (head.pulls()) answer.awaits_values = true;
    answer.in_window = head.window_at >= 0;
    if (head.reply_bytes > 0) answer.awaited_payload = static_cast<std::size_t>(head.reply_bytes);
  }
  WorkerRequest request{.worker = worker, .head = head, .complete = whole};
  if (head.pushes()) {
    request.values = values_of(head, from);
    request.here = whole ? values_ : from.parts.over();
  }
  if (whole && head.payload_bytes > 0)
    request.payload = std::span(from.payload).first(static_cast<std::size_t>(head.payload_bytes));
  if (whole && needs_buffers(head)) from.taken = true;
  const auto less = std::ranges::find_if(
      ready_, [&](const WorkerRequest& other) { return other.worker == worker && !other.complete; });
  if (less != ready_.end()) {
    *less = request;
  } else {
    ready_.push_back(request);
  }
}

void PushPullServer::release(const WorkerRequest& request) {
  if (!needs_buffers(request.head)) return;
  Incoming& from = workers_.at(static_cast<std::size_t>(request.worker));
  require(std::exchange(from.taken, false), "a request is released twice");
  requests_->values.give_back(from.values);
  requests_->payloads.give_back(from.payload);
  if (from.coming) start_receiving(request.worker);
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
    to = requests_->copies.take(answer.copy, values_ * bytes_per_value(wires_.pull));
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
    check(MPI_Waitall(PushPullParts::places, &requests_->of(worker, PushPullRequests::answer),
                      MPI_STATUSES_IGNORE),
          "MPI_Waitall");
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
    MPI_Request& request = requests_->begin(worker, PushPullRequests::answer + PushPullParts::place_of(part));
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
  check(MPI_Wait(&requests_->of(worker, PushPullRequests::reply), MPI_STATUS_IGNORE), "MPI_Wait");
  return {requests_->payloads.take(answer.payload, answer.awaited_payload), answer.awaited_payload};
}

void PushPullServer::answer_payload(int worker, std::span<const std::byte> bytes) {
  const std::span<std::byte> room = reply_room(worker);
  require(!room.empty() && bytes.size() == room.size(), "worker ", worker, " expects a payload of ",
          room.size(), " bytes and is sent ", bytes.size());
  if (bytes.data() != room.data()) std::ranges::copy(bytes, room.begin());
  Answer& answer = answers_[static_cast<std::size_t>(worker)];
  answer.awaited_payload = 0;
  check(MPI_Isend(room.data(), static_cast<int>(room.size()), MPI_BYTE, answer.rank, reply_tag,
                  NativeHandle::of(all_), &requests_->begin(worker, PushPullRequests::reply)),
        "MPI_Isend");
}

}  // namespace flotilla::mpi
