// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>

namespace flotilla {

/// The host has no memory for one array. Exit code 3.
struct OutOfMemory : std::bad_alloc {
  explicit OutOfMemory(std::size_t array_bytes) : bytes(array_bytes) {}
  std::size_t bytes;
};

}  // namespace flotilla
