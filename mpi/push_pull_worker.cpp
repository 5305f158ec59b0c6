// SPDX-License-Identifier: Apache-2.0
#include "mpi/push_pull_worker.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/native.hpp"

namespace flotilla::mpi {

namespace {

/// Sent from the arena, received in it.
bool in_place(const ServerShare& share, Wire wire) {
  return wire == Wire::float32 && share.runs.size() == 1;
}

std::byte* grown(std::vector<std::byte>& buffer, std::size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
  return buffer.data();
}

/// Who awaits an answer is held up by that. Who does not waits for the server to take what it sends: small
/// messages would else pile up there.
auto sender_of(const PushPullRequest& head) {
  return head.wants_answer() ? MPI_Isend : MPI_Issend;
}

}  // namespace

std::size_t ServerShare::values() const {
  std::size_t values = 0;
  for (const SliceBounds& run : runs) values += run.end - run.begin;
  return values;
}

/// One of each kind for each server: (servers, parts).
struct PushPullWorker::Requests {
  enum Part : std::size_t { head, push, pull, payload, reply, parts };

  explicit Requests(std::size_t servers) : all(servers * parts, MPI_REQUEST_NULL), finished(all.size()) {}
  MPI_Request& of(std::size_t server, Part part) { return all[server * parts + part]; }
  int size() const { return static_cast<int>(all.size()); }

  std::vector<MPI_Request> all;
  std::vector<int> finished;  ///< MPI's list of them
};

PushPullWorker::PushPullWorker(const Communicator& all, std::vector<ServerShare> shares, PushPullWires wires)
    : all_(all.collective_clone()),
      wires_(wires),
      requests_(std::make_unique<Requests>(shares.size())),
      expected_(shares.size()) {
  for (ServerShare& share : shares) {
    const std::size_t values = share.values();
    require(values <= largest_share, "a server owns ", values, " values: more than one message may have");
    links_.push_back({.share = std::move(share), .values = values});
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
  if (std::uncaught_exceptions() > 0 || pending_ == 0) return;
  MPI_Waitall(requests_->size(), requests_->all.data(), MPI_STATUSES_IGNORE);
}

/// One run after another, as the wire has them.
void PushPullWorker::write_values(const Link& link, std::span<const float> from, std::byte* to) const {
  for (const SliceBounds& run : link.share.runs) {
    encode(wires_.push, from.subspan(run.begin, run.end - run.begin), to);
    to += (run.end - run.begin) * bytes_per_value(wires_.push);
  }
}

void PushPullWorker::read_values(const Link& link, const std::byte* from) const {
  for (const SliceBounds& run : link.share.runs) {
    decode(wires_.pull, from, to_.subspan(run.begin, run.end - run.begin));
    from += (run.end - run.begin) * bytes_per_value(wires_.pull);
  }
}

void PushPullWorker::send_values(std::size_t server, std::span<const float> from) {
  Link& link = links_[server];
  const std::size_t value_bytes = bytes_per_value(wires_.push);
  const auto* bytes = reinterpret_cast<const std::byte*>(from.data());
  if (in_place(link.share, wires_.push)) {
    bytes += link.share.runs.front().begin * sizeof(float);
  } else {
    std::byte* to = grown(link.outgoing, link.values * value_bytes);
    write_values(link, from, to);
    bytes = to;
  }
  check(sender_of(link.head)(bytes, static_cast<int>(link.values), carrier_of(wires_.push), link.share.rank,
                             push_tag, NativeHandle::of(all_), &requests_->of(server, Requests::push)),
        "MPI_Isend");
  ++pending_;
}

void PushPullWorker::expect_values(std::size_t server, std::span<float> to) {
  Link& link = links_[server];
  MPI_Request& request = requests_->of(server, Requests::pull);
  if (link.head.window_at >= 0) {
    check(MPI_Irecv(&link.answer_at, 1, MPI_INT64_T, link.share.rank, pull_tag, NativeHandle::of(all_),
                    &request),
          "MPI_Irecv");
  } else {
    std::byte* into = in_place(link.share, wires_.pull)
                          ? reinterpret_cast<std::byte*>(to.data() + link.share.runs.front().begin)
                          : grown(link.incoming, link.values * bytes_per_value(wires_.pull));
    check(MPI_Irecv(into, static_cast<int>(link.values), carrier_of(wires_.pull), link.share.rank, pull_tag,
                    NativeHandle::of(all_), &request),
          "MPI_Irecv");
  }
  ++pending_;
  expected_[server].fetch_add(1, std::memory_order_relaxed);
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
  // What has no answer goes as a message: that says when the server has it.
  if (head.kind == RequestKind::push_pull) link.head.window_at = link.window_at;
  if (payloads.empty()) return;
  const Payload& payload = payloads[server];
  require(payload.out.size() <= largest_payload && payload.back.size() <= largest_payload, "a payload of ",
          payload.out.size(), " bytes out and ", payload.back.size(), " back: one message has at most ",
          largest_payload);
  require(head.kind != RequestKind::push || payload.back.empty(), "a push has no answer, but a payload back");
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
  to_ = to;
  for (std::size_t server = 0; server < links_.size(); ++server) {
    const std::size_t needed = links_[server].share.runs.empty() ? 0 : links_[server].share.runs.back().end;
    require((!head.pushes() || needed <= from.size()) && (!head.pulls() || needed <= to.size()),
            "what server ", server, " owns ends at ", needed, ", behind the arena");
    set_head(server, head, payloads);
  }
  for (std::size_t server = 0; server < links_.size(); ++server) {
    if (head.pulls()) expect_values(server, to);
    if (links_[server].head.reply_bytes > 0) expect_payload(server, payloads[server].back);
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    // Every worker begins with another server.
    const std::size_t server = (i + static_cast<std::size_t>(all_.rank())) % links_.size();
    const Link& link = links_[server];
    if (link.head.window_at >= 0) {
      write_values(link, from, window_->mine().data() + link.window_at);
      PushPullWindow::publish();
    }
    send_head(server);
    if (link.head.payload_bytes > 0) send_payload(server, payloads[server].out);
    if (head.pushes() && link.head.window_at < 0) send_values(server, from);
    if (head.pushes()) sent_bytes_ += static_cast<std::int64_t>(link.values * bytes_per_value(wires_.push));
  }
}

void PushPullWorker::start_push(std::int64_t step, int batches, std::span<const float> from,
                                std::span<const Payload> payloads) {
  start({.kind = RequestKind::push, .batches = batches, .step = step}, from, {}, payloads);
}

void PushPullWorker::start_pull(std::int64_t step, std::span<float> to, std::span<const Payload> payloads) {
  start({.kind = RequestKind::pull, .batches = 0, .step = step}, {}, to, payloads);
}

void PushPullWorker::start_pull_array(std::int64_t step, std::int64_t array, std::span<float> to) {
  start({.kind = RequestKind::pull, .batches = 0, .step = step, .array = array}, {}, to, {});
}

void PushPullWorker::start_push_pull(std::int64_t step, int batches, double learning_rate,
                                     std::span<const float> from, std::span<float> to,
                                     std::span<const Payload> payloads) {
  start({.kind = RequestKind::push_pull, .batches = batches, .step = step, .learning_rate = learning_rate},
        from, to, payloads);
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

/// Brings what came to its places.
void PushPullWorker::finish(std::span<const int> indices) {
  for (const int index : indices) {
    const std::size_t server = static_cast<std::size_t>(index) / Requests::parts;
    const std::size_t part = static_cast<std::size_t>(index) % Requests::parts;
    if (part != Requests::pull && part != Requests::reply) continue;
    expected_[server].fetch_sub(1, std::memory_order_relaxed);
    if (part != Requests::pull) continue;
    const Link& link = links_[server];
    if (link.head.window_at >= 0) {
      const std::size_t bytes = link.values * bytes_per_value(wires_.pull);
      read_values(link, window_->announced(link.share.rank, link.answer_at, bytes).data());
    } else if (!in_place(link.share, wires_.pull)) {
      read_values(link, link.incoming.data());
    }
  }
  pending_ -= indices.size();
}

bool PushPullWorker::test() {
  if (pending_ == 0) return true;
  int count = 0;
  check(MPI_Testsome(requests_->size(), requests_->all.data(), &count, requests_->finished.data(),
                     MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  finish(std::span(requests_->finished).first(static_cast<std::size_t>(count)));
  return pending_ == 0;
}

void PushPullWorker::wait() {
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
