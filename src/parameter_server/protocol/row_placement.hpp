// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace flotilla {

/// The server that owns the row of a key. All bits of the key decide, mixed by the finalizer of SplitMix64
/// (Steele, Lea, Flood, OOPSLA 2014), so that no pattern of keys favours a server. Fixed in all versions:
/// rows of checkpoints are assigned to servers by it.
inline int server_of(std::uint64_t key, int servers) {
  key += 0x9E3779B97F4A7C15U;
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9U;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBU;
  key ^= key >> 31;
  return static_cast<int>(((key >> 32) * static_cast<std::uint64_t>(servers)) >> 32);
}

}  // namespace flotilla
