// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocation_count.hpp"

#include <dlfcn.h>
#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string_view>

namespace {

thread_local std::int64_t of_this_thread = 0;
std::atomic<std::int64_t> of_all_threads{0};
std::atomic<std::int64_t> held_bytes{0};
std::atomic<std::int64_t> most_bytes_held{0};

bool lies_in_onednn(const void* code) {
  Dl_info where{};
  return dladdr(code, &where) != 0 &&
         std::string_view(where.dli_fname).find("libdnnl") != std::string_view::npos;
}

void* counted(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (!lies_in_onednn(caller)) {
    ++of_this_thread;
    ++of_all_threads;
  }
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  const auto size = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t held = held_bytes.fetch_add(size) + size;
  std::int64_t most = most_bytes_held;
  while (held > most && !most_bytes_held.compare_exchange_weak(most, held)) {
  }
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory != nullptr) held_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// The array forms are spelt out because a sanitizer brings its own, which do not call these.
void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete[](void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give_back(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give_back(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  give_back(memory);
}

namespace flotilla::test {

std::int64_t allocations_of_this_thread() {
  return of_this_thread;
}

std::int64_t allocations_of_all_threads() {
  return of_all_threads;
}

std::int64_t bytes_held() {
  return held_bytes;
}

std::int64_t most_bytes_over(const std::function<void()>& work) {
  const std::int64_t before = held_bytes;
  most_bytes_held = before;
  work();
  return most_bytes_held - before;
}

}  // namespace flotilla::test
