// SPDX-License-Identifier: Apache-2.0
#include "tests/train/allocation_count.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local std::int64_t allocations = 0;
}  // namespace

// The array forms are spelt out because a sanitizer brings its own, which do not call these.
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) {
  return operator new(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace flotilla {

std::int64_t allocations_of_this_thread() {
  return allocations;
}

}  // namespace flotilla
