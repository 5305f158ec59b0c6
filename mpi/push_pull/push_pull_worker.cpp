// SPDX-License-Identifier: Apache-2.0
#include "mpi/push_pull/push_pull_worker.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

/// Sent from the arena, received in it.
bool in_place(const ServerShare& share, Wire wire) {
  return wire == Wire::float32 && share.runs.size() == 1;
}

/// Calls f(value of the share, place in the arena, count) for what lies between `done` and the value `end`.
template <class Packed, class F>
void for_each_run(const ServerShare& share, Packed& done, std::size_t end, F&& f) {
  while (done.values < end) {
    const SliceBounds& run = share.runs[done.run];
    const std::size_t count = std::min(end - done.values, run.end - run.begin - done.at);
    f(done.values, run.begin + done.at, count);
    done.values += count;
    done.at += count;
    if (done.at < run.end - run.begin) continue;
    ++done.run;
    done.at = 0;
  }
}

/// A worker that awaits an answer is slowed down by the answer. One that does not waits until the server
/// receives its message: otherwise small messages would pile up there.
auto sender_of(const PushPullRequest& head) {
  return head.wants_answer() ? MPI_Isend : MPI_Issend;
}

}  // namespace

std::size_t ServerShare::values() const {
  std::size_t values = 0;
  for (const SliceBounds& run : runs) values += run.end - run.begin;
  return values;
}

/// For each server a request's, its payloads', and one for each place of values: (servers, parts).
struct PushPullWorker::Requests {
  enum Part : std::size_t {
    head,
    payload,
    reply,
    push,
    pull = push + PushPullParts::places,
    parts = pull + PushPullParts::places
  };

  explicit Requests(std::size_t servers) : all(servers * parts, MPI_REQUEST_NULL), finished(all.size()) {}
  MPI_Request& of(std::size_t server, std::size_t part) { return all[server * parts + part]; }
  int size() const { return static_cast<int>(all.size()); }

  std::vector<MPI_Request> all;
  std::vector<int> finished;  ///< MPI's list of them
};

PushPullWorker::PushPullWorker(const Communicator& all, std::vector<ServerShare> shares, PushPullWires wires)
    : all_(push_pull_copy(all)),
      wires_(wires),
      requests_(std::make_unique<Requests>(shares.size())),
      expected_(shares.size()) {
  for (ServerShare& share : shares) {
    const std::size_t values = share.values();
    require(values <= largest_share, "a server owns ", values, " values: more than one message may have");
    links_.push_back({.share = std::move(share),
                      .values = values,
                      .pushed = PushPullParts(wires.part_values),
                      .pulled = PushPullParts(wires.part_values)});
  }
  if (wires.shared_memory) share_memory();
}

/// Collective over the host: a place in this rank's part for each server there.
void PushPullWorker::share_memory() {
  const HostRanks host(all_);
  std::size_t bytes = 0;
  for (Link& link : links_) {
    if (!host.has(link.share.rank)) continue;
    link.window_at = static_cast<std::int64_t>(bytes);
    bytes += PushPullWindow::rounded(link.values * bytes_per_value(wires_.push));
  }
  window_.emplace(host, bytes);
}

PushPullWorker::~PushPullWorker() {
  if (std::uncaught_exceptions() > 0) abandon(requests_->all);
  if (pending_ > 0) MPI_Waitall(requests_->size(), requests_->all.data(), MPI_STATUSES_IGNORE);
}

/// Packs the share up to value `end`, one run after another, in the wire's format. @param to all of it
void PushPullWorker::pack(Link& link, std::size_t end, std::byte* to) const {
  for_each_run(link.share, link.packed, end, [&](std::size_t value, std::size_t at, std::size_t count) {
    encode(wires_.push, from_.subspan(at, count), to + value * bytes_per_value(wires_.push));
  });
}

void PushPullWorker::unpack(Link& link, std::size_t end, const std::byte* from) const {
  for_each_run(link.share, link.unpacked, end, [&](std::size_t value, std::size_t at, std::size_t count) {
    decode(wires_.pull, from + value * bytes_per_value(wires_.pull), to_.subspan(at, count));
  });
}

/// Sends parts of the values to a server, up to the number that may be in flight.
void PushPullWorker::send_values(std::size_t server) {
  Link& link = links_[server];
  const std::size_t value_bytes = bytes_per_value(wires_.push);
  while (link.pushed.may_begin(link.values)) {
    const std::size_t part = link.pushed.begin();
    const auto [begin, end] = link.pushed.bounds(part);
    const auto* bytes = reinterpret_cast<const std::byte*>(from_.data());
    if (in_place(link.share, wires_.push)) {
      bytes += link.share.runs.front().begin * sizeof(float);
    } else {
      std::byte* const to = grown(link.outgoing, link.values * value_bytes);
      pack(link, end, to);
      bytes = to;
    }
    check(sender_of(link.head)(bytes + begin * value_bytes, static_cast<int>(end - begin),
                               carrier_of(wires_.push), link.share.rank, push_tag, NativeHandle::of(all_),
                               &requests_->of(server, Requests::push + PushPullParts::place_of(part))),
          "MPI_Isend");
    ++pending_;
  }
}

/// Posts receives for parts of the values of a server, up to the number that may be in flight.
void PushPullWorker::expect_values(std::size_t server) {
  Link& link = links_[server];
  const std::size_t value_bytes = bytes_per_value(wires_.pull);
  while (link.pulled.may_begin(link.values)) {
    const std::size_t part = link.pulled.begin();
    const auto [begin, end] = link.pulled.bounds(part);
    std::byte* const into = in_place(link.share, wires_.pull)
                                ? reinterpret_cast<std::byte*>(to_.data() + link.share.runs.front().begin)
                                : grown(link.incoming, link.values * value_bytes);
    check(MPI_Irecv(into + begin * value_bytes, static_cast<int>(end - begin), carrier_of(wires_.pull),
                    link.share.rank, pull_tag, NativeHandle::of(all_),
                    &requests_->of(server, Requests::pull + PushPullParts::place_of(part))),
          "MPI_Irecv");
    ++pending_;
  }
}

/// Posts receives for the values, or for their offset in the window.
void PushPullWorker::expect_answer(std::size_t server) {
  Link& link = links_[server];
  expected_[server].fetch_add(1, std::memory_order_relaxed);
  if (link.head.window_at < 0) {
    expect_values(server);
    return;
  }
  check(MPI_Irecv(&link.answer_at, 1, MPI_INT64_T, link.share.rank, pull_tag, NativeHandle::of(all_),
                  &requests_->of(server, Requests::pull)),
        "MPI_Irecv");
  ++pending_;
}

/// Copies the answer out of the window, or unpacks a part of it.
void PushPullWorker::take_values(std::size_t server, std::size_t place) {
  Link& link = links_[server];
  if (link.head.window_at >= 0) {
    const std::size_t bytes = link.values * bytes_per_value(wires_.pull);
    unpack(link, link.values, window_->announced(link.share.rank, link.answer_at, bytes).data());
  } else {
    link.pulled.end(place);
    if (!in_place(link.share, wires_.pull)) unpack(link, link.pulled.over(), link.incoming.data());
    expect_values(server);
    if (!link.pulled.all_over()) return;
  }
  expected_[server].fetch_sub(1, std::memory_order_relaxed);
}

void PushPullWorker::send_payload(std::size_t server, std::span<const std::byte> payload) {
  Link& link = links_[server];
  check(sender_of(link.head)(payload.data(), static_cast<int>(payload.size()), MPI_BYTE, link.share.rank,
                             payload_tag, NativeHandle::of(all_), &requests_->of(server, Requests::payload)),
        "MPI_Isend");
  ++pending_;
  sent_bytes_ += static_cast<std::int64_t>(payload.size());
}

void PushPullWorker::expect_payload(std::size_t server, std::span<std::byte> to) {
  check(MPI_Irecv(to.data(), static_cast<int>(to.size()), MPI_BYTE, links_[server].share.rank, reply_tag,
                  NativeHandle::of(all_), &requests_->of(server, Requests::reply)),
        "MPI_Irecv");
  ++pending_;
  expected_[server].fetch_add(1, std::memory_order_relaxed);
}

void PushPullWorker::set_head(std::size_t server, const PushPullRequest& head,
                              std::span<const Payload> payloads) {
  Link& link = links_[server];
  link.head = head;
  if (head.kind == RequestKind::push_pull) link.head.window_at = link.window_at;
  if (payloads.empty()) return;
  const Payload& payload = payloads[server];
  require(payload.out.size() <= largest_payload && payload.back.size() <= largest_payload, "a payload of ",
          payload.out.size(), " bytes out and ", payload.back.size(), " back: one message has at most ",
          largest_payload);
  link.head.payload_bytes = static_cast<std::int64_t>(payload.out.size());
  link.head.reply_bytes = static_cast<std::int64_t>(payload.back.size());
}

void PushPullWorker::send_head(std::size_t server) {
  Link& link = links_[server];
  // A farewell is the last that is sent, and never held up.
  const bool alone =
      link.head.kind == RequestKind::rows && !link.head.wants_answer() && link.head.payload_bytes == 0;
  check(
      (alone ? MPI_Issend : MPI_Isend)(&link.head, sizeof(link.head), MPI_BYTE, link.share.rank, request_tag,
                                       NativeHandle::of(all_), &requests_->of(server, Requests::head)),
      "MPI_Isend");
  ++pending_;
  sent_bytes_ += static_cast<std::int64_t>(sizeof(link.head));
}

void PushPullWorker::start(const PushPullRequest& head, std::span<const float> from, std::span<float> to,
                           std::span<const Payload> payloads) {
  require(pending_ == 0, "a worker pushes or pulls while it still does");
  require(payloads.empty() || payloads.size() == links_.size(), payloads.size(), " payloads for ",
          links_.size(), " servers");
  with_all_workers_ = false;
  from_ = from;
  to_ = to;
  for (std::size_t server = 0; server < links_.size(); ++server) {
    Link& link = links_[server];
    const std::size_t needed = link.share.runs.empty() ? 0 : link.share.runs.back().end;
    require((!head.pushes() || needed <= from.size()) && (!head.pulls() || needed <= to.size()),
            "what server ", server, " owns ends at ", needed, ", behind the arena");
    link.packed = {};
    link.unpacked = {};
    link.pushed.start(link.values);
    link.pulled.start(link.values);
    set_head(server, head, payloads);
  }
  for (std::size_t server = 0; server < links_.size(); ++server) {
    if (head.pulls()) expect_answer(server);
    if (links_[server].head.reply_bytes > 0) expect_payload(server, payloads[server].back);
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    // Every worker begins with another server.
    const std::size_t server = (i + static_cast<std::size_t>(all_.rank())) % links_.size();
    Link& link = links_[server];
    if (link.head.window_at >= 0) {
      pack(link, link.values, window_->mine().data() + link.window_at);
      PushPullWindow::publish();
    }
    send_head(server);
    if (link.head.payload_bytes > 0) send_payload(server, payloads[server].out);
    if (head.pushes() && link.head.window_at < 0) send_values(server);
    if (head.pushes()) sent_bytes_ += static_cast<std::int64_t>(link.values * bytes_per_value(wires_.push));
  }
}

void PushPullWorker::start_pull(std::int64_t step, std::span<float> to, std::span<const Payload> payloads) {
  start({.kind = RequestKind::pull, .batches = 0, .step = step}, {}, to, payloads);
}

void PushPullWorker::start_pull_array(std::int64_t step, std::int64_t array, std::span<float> to) {
  start({.kind = RequestKind::pull, .batches = 0, .step = step, .array = array}, {}, to, {});
}

void PushPullWorker::start_push_pull(const PushedStep& pushed, std::span<const float> from,
                                     std::span<float> to, std::span<const Payload> payloads,
                                     std::source_location where) {
  start({.kind = RequestKind::push_pull,
         .batches = pushed.batches,
         .step = pushed.step,
         .learning_rate = pushed.learning_rate},
        from, to, payloads);
  with_all_workers_ = wires_.together;
  if (with_all_workers_)
    NativeHandle::log(all_).begin("push to the servers and pull", type_word<float>(), std::ssize(from),
                                  {pushed.step, where});
}

void PushPullWorker::start_rows(std::int64_t step, std::span<const Payload> payloads) {
  start({.kind = RequestKind::rows, .batches = 0, .step = step}, {}, {}, payloads);
}

void PushPullWorker::start_command(std::int64_t step, std::span<const Payload> payloads) {
  start({.kind = RequestKind::command, .batches = 0, .step = step}, {}, {}, payloads);
}

void PushPullWorker::start_pause(std::int64_t step) {
  start({.kind = RequestKind::pause, .batches = 0, .step = step}, {}, {}, {});
}

/// Copies received parts to their destinations and sends the next parts.
void PushPullWorker::finish(std::span<const int> indices) {
  for (const int index : indices) {
    const std::size_t server = static_cast<std::size_t>(index) / Requests::parts;
    const std::size_t part = static_cast<std::size_t>(index) % Requests::parts;
    --pending_;
    if (part >= Requests::pull) {
      take_values(server, part - Requests::pull);
    } else if (part >= Requests::push) {
      links_[server].pushed.end(part - Requests::push);
      send_values(server);
    } else if (part == Requests::reply) {
      expected_[server].fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

void PushPullWorker::wait() {
  std::optional<WaitingScope> waiting;
  if (with_all_workers_) waiting.emplace(NativeHandle::log(all_));
  while (pending_ > 0) {
    int count = 0;
    check(MPI_Waitsome(requests_->size(), requests_->all.data(), &count, requests_->finished.data(),
                       MPI_STATUSES_IGNORE),
          "MPI_Waitsome");
    finish(std::span(requests_->finished).first(static_cast<std::size_t>(count)));
  }
}

void PushPullWorker::farewell() {
  wait();
  start({.kind = RequestKind::farewell}, {}, {}, {});
  wait();
}

std::vector<int> PushPullWorker::missing_servers() const {
  std::vector<int> missing;
  for (std::size_t server = 0; server < expected_.size(); ++server)
    if (expected_[server].load(std::memory_order_relaxed) > 0) missing.push_back(static_cast<int>(server));
  return missing;
}

}  // namespace flotilla::mpi
