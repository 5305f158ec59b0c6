// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"

namespace flotilla {

namespace {

/// Smaller arrays are allocated without reading the memory limits, which takes some 0.1 ms.
constexpr std::size_t looked_for_bytes = 16 << 20;
constexpr std::size_t huge_page = 2 << 20;  // bytes, of x86-64

/// Asks for huge pages where they fit in: convolutions and batch norm of ResNet-50 take 0.97 of the time with
/// them (batch 16, one thread, Zen 4). A kernel that has none says no, which changes nothing else.
void prefer_huge_pages(void* memory, std::size_t bytes) {
  if (bytes >= huge_page) madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);
}

/// @throws OutOfMemory
void* taken_from_host(std::size_t bytes, std::align_val_t alignment) {
  try {
    return ::operator new(bytes, alignment);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(bytes);
  }
}

}  // namespace

Storage HostMemory::allocate(std::size_t count) const {
  if (count == 0) return {};
  const std::size_t bytes = count * sizeof(float);
  // A process that exceeds its limit is killed without a message when the memory is first written.
  if (bytes >= looked_for_bytes)
    require_memory(memory_limit(), static_cast<std::int64_t>(bytes), "the values of an array");
  const std::align_val_t alignment{bytes >= huge_page ? huge_page : 64};
  void* const memory = taken_from_host(bytes, alignment);
  prefer_huge_pages(memory, bytes);
  // Zeroed here, by the thread that will use it: pages lie near its core.
  std::memset(memory, 0, bytes);
  const auto signed_bytes = static_cast<std::int64_t>(bytes);
  *bytes_ += signed_bytes;
  return {static_cast<float*>(memory), count, [counter = bytes_, signed_bytes, alignment](float* address) {
            ::operator delete(address, alignment);
            *counter -= signed_bytes;
          }};
}

Storage DeviceMemory::pinned(std::size_t count) const {
  return HostMemory().allocate(count);
}

void HostMemory::upload(std::span<const float> host, DeviceSpan<float> to) const {
  require(host.size() == to.size(), "upload of ", host.size(), " into ", to.size(), " values");
  std::ranges::copy(host, to.address());
}

void HostMemory::download(DeviceSpan<const float> from, std::span<float> host) const {
  require(from.size() == host.size(), "download of ", from.size(), " into ", host.size(), " values");
  std::copy_n(from.address(), from.size(), host.begin());
}

}  // namespace flotilla
