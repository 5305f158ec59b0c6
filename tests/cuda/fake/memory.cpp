// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/cuda/fake/queues.hpp"

namespace flotilla::fake {

namespace {

constexpr std::size_t large = 1U << 24U;
constexpr std::size_t total_memory = std::size_t{4} << 30U;
constexpr std::size_t kept_bytes = std::size_t{64} << 20U;

using Allocations = std::map<const void*, std::size_t>;
std::mutex guard;  // pinned memory and lanes are of several threads
Allocations on_device;
Allocations page_locked;
std::size_t device_bytes = 0;

/// Memory of the device that was given back: it goes to the next of its size on the same stream.
struct Returned {
  void* memory;
  std::size_t room;
  cudaStream_t stream;
};
std::vector<Returned> returned;
/// Page-locked memory that was given back, the oldest first.
std::deque<std::pair<void*, std::size_t>> graves;
std::size_t buried_bytes = 0;

std::size_t room_for(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// NaN, whatever the precision. Not where it is for scratch.
void poison(void* memory, std::size_t bytes) {
  if (bytes < large) std::memset(memory, 0xFF, bytes);
}

/// Whether [memory, memory + bytes) lies in one allocation.
bool lies_in(const Allocations& memories, const void* memory, std::size_t bytes) {
  const std::lock_guard lock(guard);
  auto after = memories.upper_bound(memory);
  if (after == memories.begin()) return false;
  --after;
  const auto offset =
      static_cast<std::size_t>(static_cast<const char*>(memory) - static_cast<const char*>(after->first));
  return offset + bytes <= after->second;
}

void* taken_again(std::size_t room, cudaStream_t stream) {
  for (auto one = returned.begin(); one != returned.end(); ++one) {
    if (one->room != room || one->stream != stream) continue;
    void* const memory = one->memory;
    returned.erase(one);
    return memory;
  }
  return nullptr;
}

void check_still_locked(const void* memory, std::size_t bytes) {
  if (is_page_locked(memory, bytes)) return;
  std::fputs("the fake GPU: a copy of page-locked memory that was given back before its turn came\n", stderr);
  std::abort();
}

}  // namespace

bool is_device_memory(const void* memory, std::size_t bytes) {
  return lies_in(on_device, memory, bytes);
}
bool is_page_locked(const void* memory, std::size_t bytes) {
  return lies_in(page_locked, memory, bytes);
}
std::size_t allocations() {
  const std::lock_guard lock(guard);
  return on_device.size() + page_locked.size();
}
std::size_t free_device_bytes() {
  const std::lock_guard lock(guard);
  return total_memory - device_bytes;
}
std::size_t total_device_bytes() {
  return total_memory;
}

void* allocate_on_device(std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard order(queues_mutex());
  const std::size_t room = room_for(bytes);
  void* memory = nullptr;
  {
    const std::lock_guard lock(guard);
    if (device_bytes + bytes > total_memory) return nullptr;
    device_bytes += bytes;
    if (by_chance(0.5)) memory = taken_again(room, stream);
    if (memory == nullptr) memory = std::aligned_alloc(256, room);
    on_device[memory] = bytes;
  }
  put(stream, [memory, bytes] { poison(memory, bytes); });
  return memory;
}

bool free_on_device(void* memory, cudaStream_t stream) {
  const std::lock_guard order(queues_mutex());
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(guard);
    const auto found = on_device.find(memory);
    if (found == on_device.end()) return false;
    bytes = found->second;
    on_device.erase(found);
    device_bytes -= bytes;
    returned.push_back({memory, room_for(bytes), stream});
  }
  put(stream, [memory, bytes] { poison(memory, bytes); });
  return true;
}

void forget_returned(cudaStream_t stream) {
  const std::lock_guard order(queues_mutex());
  std::vector<void*> memories;
  {
    const std::lock_guard lock(guard);
    const auto gone =
        std::ranges::stable_partition(returned, [=](const Returned& one) { return one.stream != stream; });
    for (const Returned& one : gone) memories.push_back(one.memory);
    returned.erase(gone.begin(), gone.end());
  }
  for (void* const memory : memories) put(stream, [memory] { std::free(memory); });
}

void* allocate_page_locked(std::size_t bytes) {
  void* const memory = std::aligned_alloc(256, room_for(bytes));
  poison(memory, bytes);
  const std::lock_guard lock(guard);
  page_locked[memory] = bytes;
  return memory;
}

bool free_page_locked(void* memory) {
  const std::lock_guard lock(guard);
  const auto found = page_locked.find(memory);
  if (found == page_locked.end()) return false;
  const std::size_t bytes = found->second;
  page_locked.erase(found);
  poison(memory, bytes);
  graves.emplace_back(memory, bytes);
  buried_bytes += bytes;
  for (; buried_bytes > kept_bytes; graves.pop_front()) {
    buried_bytes -= graves.front().second;
    std::free(graves.front().first);
  }
  return true;
}

bool lock_pages(void* memory, std::size_t bytes) {
  const std::lock_guard lock(guard);
  return page_locked.emplace(memory, bytes).second;
}
bool unlock_pages(void* memory) {
  const std::lock_guard lock(guard);
  return page_locked.erase(memory) == 1;
}

bool copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return true;
  const bool down = kind == cudaMemcpyDeviceToHost;
  if (!down && kind != cudaMemcpyHostToDevice) return false;
  const void* const there = down ? from : to;
  const void* const here = down ? to : from;
  if (!is_device_memory(there, bytes) || is_device_memory(here, 1)) return false;
  const std::lock_guard order(queues_mutex());
  if (is_page_locked(here, bytes)) {
    put(stream, [=] {
      check_still_locked(here, bytes);
      std::memcpy(to, from, bytes);
    });
  } else if (!down && by_chance(0.4)) {
    const auto* const first = static_cast<const std::byte*>(from);
    put(stream, [to, held = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to, held.data(), held.size());
    });
  } else {
    put(stream, [=] { std::memcpy(to, from, bytes); });
    if (!capturing() && by_chance(0.3)) finish(place_of(stream));
  }
  return true;
}

}  // namespace flotilla::fake
