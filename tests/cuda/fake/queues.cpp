// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/queues.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <utility>

namespace flotilla::fake {

namespace {

struct Item {
  Work work{};
  Place after{};
  bool meeting = false;
};

struct Capture {
  Works works{};
  bool spoilt = false;
};

}  // namespace

class Stream {
 public:
  std::deque<Item> waiting{};
  std::size_t done = 0;
  bool destroyed = false;
  std::unique_ptr<Capture> capture{};

  std::size_t issued() const { return done + waiting.size(); }
  bool has_ready() const {
    return !waiting.empty() && (waiting.front().after.stream == nullptr ||
                                waiting.front().after.stream->done >= waiting.front().after.works);
  }
  void do_first() {
    // Counted when it is done; what it calls may examine this stream.
    const Item item = std::move(waiting.front());
    waiting.front() = {};
    if (item.work) item.work();
    waiting.pop_front();
    ++done;
  }
};

namespace {

std::map<Stream*, std::shared_ptr<Stream>> streams;
Place last_meeting;
thread_local Stream* captured = nullptr;
int captures_to_spoil = 0;

std::uint64_t seed() {
  const char* const text = std::getenv("FLOTILLA_FAKE_GPU_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

struct Chance {
  std::mt19937_64 random{seed()};
  /// The probability that one more work is done at a call that waits for nothing; and that a work done at a
  /// call that waits is one that nothing asks for.
  double eagerness = std::array{0.0, 0.3, 0.8, 1.0}[seed() % 4];
  double wandering = std::array{0.0, 0.2, 0.6}[seed() / 4 % 3];

  bool happens(double probability) { return std::uniform_real_distribution<>()(random) < probability; }
  std::size_t below(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  }
};

Chance& chance() {
  static Chance made;
  return made;
}

std::shared_ptr<Stream> known(cudaStream_t handle) {
  const auto found = streams.find(reinterpret_cast<Stream*>(handle));
  if (found == streams.end() || found->second->destroyed) {
    std::fputs("the fake GPU: a call names a stream that is not there\n", stderr);
    std::abort();
  }
  return found->second;
}

/// A stream that can proceed without other ranks; null: none can.
Stream* free_one() {
  std::vector<Stream*> ready;
  for (const auto& [address, stream] : streams)
    if (stream->has_ready() && !stream->waiting.front().meeting) ready.push_back(address);
  return ready.empty() ? nullptr : ready[chance().below(ready.size())];
}

void forget_destroyed() {
  std::erase_if(streams,
                [](const auto& one) { return one.second->destroyed && one.second->waiting.empty(); });
}

/// Lets the GPU proceed by itself.
void go_on() {
  while (chance().happens(chance().eagerness)) {
    Stream* const stream = free_one();
    if (stream == nullptr) break;
    stream->do_first();
  }
  forget_destroyed();
}

/// The place that each stream must reach.
using Needs = std::map<Stream*, std::size_t>;

void need(const Place& place, Needs& needs) {
  std::vector<Place> open = {place};
  while (!open.empty()) {
    const Place next = std::move(open.back());
    open.pop_back();
    if (next.stream == nullptr || next.stream->done >= next.works) continue;
    const auto [at, added] = needs.emplace(next.stream.get(), next.stream->done);
    const std::size_t from = at->second - next.stream->done;
    at->second = std::max(at->second, next.works);
    for (std::size_t i = from; i < at->second - next.stream->done; ++i)
      open.push_back(next.stream->waiting[i].after);
  }
}

bool comes_behind_last_meeting(const std::shared_ptr<Stream>& stream) {
  const char* const implicit = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (last_meeting.stream == nullptr || last_meeting.stream == stream ||
      last_meeting.stream->done >= last_meeting.works || (implicit != nullptr && *implicit == '1'))
    return true;
  Needs needs;
  need({stream, stream->issued()}, needs);
  const auto found = needs.find(last_meeting.stream.get());
  return found != needs.end() && found->second >= last_meeting.works;
}

}  // namespace

std::recursive_mutex& queues_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

bool by_chance(double probability) {
  return chance().happens(probability);
}

cudaStream_t make_stream() {
  const std::lock_guard lock(queues_mutex());
  const auto made = std::make_shared<Stream>();
  streams.emplace(made.get(), made);
  return reinterpret_cast<cudaStream_t>(made.get());
}

void destroy_stream(cudaStream_t stream) {
  const std::lock_guard lock(queues_mutex());
  known(stream)->destroyed = true;
  forget_destroyed();
}

void put(cudaStream_t handle, Work work) {
  const std::lock_guard lock(queues_mutex());
  const std::shared_ptr<Stream> stream = known(handle);
  if (stream->capture) {
    if (captures_to_spoil > 0) {
      --captures_to_spoil;
      stream->capture->spoilt = true;
    }
    stream->capture->works.push_back(std::move(work));
    return;
  }
  stream->waiting.push_back({std::move(work)});
  go_on();
}

bool put_meeting(cudaStream_t handle, Work work) {
  const std::lock_guard lock(queues_mutex());
  const std::shared_ptr<Stream> stream = known(handle);
  if (!comes_behind_last_meeting(stream)) {
    std::fputs("the fake GPU: works of two NCCL communicators that nothing orders\n", stderr);
    return false;
  }
  stream->waiting.push_back({std::move(work), last_meeting, true});
  last_meeting = {stream, stream->issued()};
  return true;
}

void put_wait(cudaStream_t handle, const Place& after) {
  const std::lock_guard lock(queues_mutex());
  if (after.stream == nullptr) return;
  known(handle)->waiting.push_back({{}, after});
  go_on();
}

Place place_of(cudaStream_t handle) {
  const std::lock_guard lock(queues_mutex());
  const std::shared_ptr<Stream> stream = known(handle);
  return {stream, stream->issued()};
}

bool is_done(const Place& place) {
  const std::lock_guard lock(queues_mutex());
  return place.stream == nullptr || place.stream->done >= place.works;
}

void finish(const Place& place) {
  const std::lock_guard lock(queues_mutex());
  if (place.stream == nullptr) return;
  Needs needs;
  need(place, needs);
  while (place.stream->done < place.works) {
    std::vector<Stream*> ready;
    for (const auto& [stream, works] : needs)
      if (stream->done < works && stream->has_ready()) ready.push_back(stream);
    if (ready.empty()) {
      std::fputs("the fake GPU: works that wait for each other\n", stderr);
      std::abort();
    }
    Stream* const other = chance().happens(chance().wandering) ? free_one() : nullptr;
    (other != nullptr ? other : ready[chance().below(ready.size())])->do_first();
  }
  forget_destroyed();
}

bool begin_capture(cudaStream_t handle) {
  const std::lock_guard lock(queues_mutex());
  const std::shared_ptr<Stream> stream = known(handle);
  if (captured != nullptr || stream->capture) return false;
  stream->capture = std::make_unique<Capture>();
  captured = stream.get();
  return true;
}

bool capturing() {
  return captured != nullptr;
}

cudaError_t refuse_in_capture() {
  if (captured == nullptr) return cudaSuccess;
  const std::lock_guard lock(queues_mutex());
  captured->capture->spoilt = true;
  return cudaErrorStreamCaptureUnsupported;
}

std::unique_ptr<Works> end_capture(cudaStream_t handle) {
  const std::lock_guard lock(queues_mutex());
  const std::unique_ptr<Capture> capture = std::move(known(handle)->capture);
  captured = nullptr;
  return capture->spoilt ? nullptr : std::make_unique<Works>(std::move(capture->works));
}

void spoil_captures(int count) {
  const std::lock_guard lock(queues_mutex());
  captures_to_spoil = count;
}

}  // namespace flotilla::fake
