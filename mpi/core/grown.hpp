// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace flotilla::mpi {

/// The beginning of `buffer`, which holds `bytes` bytes or more from here on.
inline std::byte* grown(std::vector<std::byte>& buffer, std::size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
  return buffer.data();
}

}  // namespace flotilla::mpi
