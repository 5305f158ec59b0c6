// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

namespace flotilla {

/// Keeps the chunks that were decoded last, up to a number of bytes, for all threads of a rank. Two threads
/// that want one chunk decode it once.
class ChunkCache {
 public:
  using Bytes = std::shared_ptr<const std::byte[]>;
  using Decode = std::function<void(std::span<std::byte>)>;

  explicit ChunkCache(std::int64_t most_bytes) : most_bytes_(most_bytes) {}
  std::int64_t most_bytes() const { return most_bytes_; }
  /// A number for the chunks of one more array.
  std::uint64_t new_array();

  /// Chunk `chunk` of array `array`, of `bytes` bytes, as `decode` writes it where it is not kept. Chunks in
  /// use stay until they are given back, beyond the bound if they must.
  /// @throws what decode throws; the chunk is then not kept
  Bytes get(std::uint64_t array, std::uint64_t chunk, std::size_t bytes, const Decode& decode);

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::size_t size = 0;
    Bytes bytes;  ///< Null while a thread decodes it
  };
  using Entries = std::list<Entry>;

  void make_room();

  std::int64_t most_bytes_;
  std::mutex mutex_;  ///< For all that follows
  std::condition_variable decoded_;
  Entries entries_;  ///< The one that was used last comes first
  std::unordered_map<std::uint64_t, Entries::iterator> by_key_;
  std::int64_t held_bytes_ = 0;
  std::uint64_t arrays_ = 0;
};

}  // namespace flotilla
