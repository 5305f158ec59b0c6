// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/communication_lanes.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/backoff.hpp"
#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

namespace {

/// Waits until `counter` is no longer `old`: watches it for some ten microseconds, because the next bucket is
/// often near, then sleeps in the kernel, because the computation may need this core. Returns the new value.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& counter, std::uint32_t old) {
  constexpr int looks = 500;
  for (int look = 0; look < looks; ++look) {
    const std::uint32_t now = counter.load(std::memory_order_acquire);
    if (now != old) return now;
    spin_pause();
  }
  counter.wait(old, std::memory_order_acquire);
  return counter.load(std::memory_order_acquire);
}

}  // namespace

// The counters are 32 bits wide because those are what the kernel can wait on; they may wrap. Their stores
// are sequentially consistent: a weaker one could pass the check for sleepers inside notify_one(), and the
// wake-up would be lost.
struct CommunicationThread::Impl {
  Impl(Work what, std::size_t capacity, std::function<void()> then, trace::Sink* to)
      : work(std::move(what)), on_failure(std::move(then)), sink(to), queue(capacity) {}

  Work work;
  std::function<void()> on_failure;
  trace::Sink* sink;
  struct Call {
    DeviceSpan<float> data;
    CallSite at;
  };
  std::vector<Call> queue;         // number i: [i % capacity]
  std::size_t next_slot = 0;       // of the starting thread
  std::uint32_t started_here = 0;  // as started, without the atomic
  alignas(128) std::atomic<std::uint32_t> started{0};
  alignas(128) std::atomic<std::uint32_t> done{0};
  std::atomic<std::int64_t> busy_ns{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> abandoned{false};
  std::thread thread;

  void run();
  void perform(const Call& call);
  void wait();
};

void CommunicationThread::Impl::perform(const Call& call) {
  const std::int64_t begin = trace::now_ns();
  work(call.data, call.at);
  busy_ns.fetch_add(trace::now_ns() - begin, std::memory_order_relaxed);
}

void CommunicationThread::Impl::run() {
  trace::record_this_thread(sink);
  std::uint32_t finished = 0;
  std::size_t slot = 0;
  while (true) {
    const std::uint32_t available = wait_for_change(started, finished);
    if (stop.load()) return;
    for (; finished != available; ++finished) {
      if (abandoned.load()) return;
      try {
        perform(queue[slot]);
      } catch (...) {
        on_failure();
        abort_job(exit_internal_error);  // on_failure must not return
      }
      slot = slot + 1 == queue.size() ? 0 : slot + 1;
      done.store(finished + 1);
      done.notify_one();
    }
  }
}

CommunicationThread::CommunicationThread(Work work, std::size_t capacity, std::function<void()> on_failure,
                                         trace::Sink* sink)
    : impl_(std::make_unique<Impl>(std::move(work), capacity, std::move(on_failure), sink)) {
  require(capacity > 0, "a communication thread needs room for one call");
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

CommunicationThread::CommunicationThread(Collectives& collectives, std::size_t capacity,
                                         std::function<void()> on_failure, trace::Sink* sink)
    : CommunicationThread(
          [&collectives](DeviceSpan<float> data, const CallSite& at) {
            const trace::Span span("all-reduce");
            collectives.all_reduce(data, at);
          },
          capacity, std::move(on_failure), sink) {}

CommunicationThread::~CommunicationThread() {
  if (std::uncaught_exceptions() > 0) {
    // The thread may be inside a collective that never ends: the job is about to be aborted. What it uses
    // stays.
    impl_->abandoned.store(true);
    impl_->thread.detach();
    impl_.release();
    return;
  }
  impl_->wait();
  impl_->stop.store(true);
  impl_->started.fetch_add(1);
  impl_->started.notify_one();
  impl_->thread.join();
}

void CommunicationThread::start(DeviceSpan<float> data, CallSite at) {
  Impl& impl = *impl_;
  require(impl.started_here - impl.done.load(std::memory_order_acquire) < impl.queue.size(), "more than ",
          impl.queue.size(), " calls in flight");
  impl.queue[impl.next_slot] = {data, at};
  impl.next_slot = impl.next_slot + 1 == impl.queue.size() ? 0 : impl.next_slot + 1;
  impl.started.store(++impl.started_here);
  impl.started.notify_one();
}

void CommunicationThread::Impl::wait() {
  std::uint32_t now = done.load(std::memory_order_acquire);
  while (now != started_here) now = wait_for_change(done, now);
}

void CommunicationThread::finish() {
  impl_->wait();
}

bool CommunicationThread::finished() const {
  return impl_->done.load(std::memory_order_acquire) == impl_->started_here;
}

std::int64_t CommunicationThread::busy_ns() const {
  return impl_->busy_ns.load(std::memory_order_relaxed);
}

CommunicationLanes::CommunicationLanes(std::span<Collectives* const> lanes, std::size_t capacity,
                                       const std::function<void()>& on_failure,
                                       std::span<trace::Sink* const> sinks) {
  require(!lanes.empty() && (sinks.empty() || sinks.size() == lanes.size()), lanes.size(),
          " communication lanes with ", sinks.size(), " sinks");
  const std::size_t capacity_per_lane = (capacity + lanes.size() - 1) / lanes.size();
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    lanes_.push_back({*lanes[lane], nullptr});
    if (!lanes[lane]->queues())
      lanes_.back().thread = std::make_unique<CommunicationThread>(
          *lanes[lane], capacity_per_lane, on_failure, sinks.empty() ? nullptr : sinks[lane]);
  }
}

void CommunicationLanes::start(DeviceSpan<float> data, CallSite at) {
  const Lane& lane = lanes_[next_];
  next_ = next_ + 1 == lanes_.size() ? 0 : next_ + 1;
  lane.collectives.ready(data);
  if (lane.thread) return lane.thread->start(data, at);
  lane.collectives.all_reduce(data, at);
}

void CommunicationLanes::finish() {
  for (const Lane& lane : lanes_) {
    if (lane.thread) lane.thread->finish();
    lane.collectives.wait_on_stream();
  }
  next_ = 0;  // every step begins alike, whatever the number of its buckets
}

bool CommunicationLanes::finished() const {
  return std::ranges::all_of(lanes_,
                             [](const Lane& lane) { return !lane.thread || lane.thread->finished(); });
}

std::int64_t CommunicationLanes::busy_ns() const {
  std::int64_t sum = 0;
  for (const Lane& lane : lanes_)
    if (lane.thread) sum += lane.thread->busy_ns();
  return sum;
}

}  // namespace flotilla::mpi
