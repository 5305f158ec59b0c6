// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/chunk_cache.hpp"

#include <iterator>
#include <utility>

namespace flotilla {

namespace {

constexpr int array_shift = 40;  // 2^40 chunks of an array

}  // namespace

std::uint64_t ChunkCache::new_array() {
  const std::lock_guard lock(mutex_);
  return arrays_++;
}

void ChunkCache::make_room() {
  for (auto at = entries_.end(); held_bytes_ > most_bytes_ && at != entries_.begin();) {
    --at;
    // A chunk that a thread decodes or copies from needs its memory anyhow.
    if (at->bytes == nullptr || at->bytes.use_count() > 1) continue;
    held_bytes_ -= static_cast<std::int64_t>(at->size);
    by_key_.erase(at->key);
    at = entries_.erase(at);
  }
}

ChunkCache::Bytes ChunkCache::get(std::uint64_t array, std::uint64_t chunk, std::size_t bytes,
                                  const Decode& decode) {
  const std::uint64_t key = (array << array_shift) | chunk;
  std::unique_lock lock(mutex_);
  for (auto found = by_key_.find(key); found != by_key_.end(); found = by_key_.find(key)) {
    if (found->second->bytes != nullptr) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->bytes;
    }
    decoded_.wait(lock);
  }
  Entries added;  // joins the others once its key is there, so that no memory for that leaves no trace
  added.push_front({.key = key, .size = bytes, .bytes = nullptr});
  const auto entry = added.begin();
  by_key_.emplace(key, entry);
  entries_.splice(entries_.begin(), added);
  held_bytes_ += static_cast<std::int64_t>(bytes);
  make_room();
  lock.unlock();
  try {
    std::shared_ptr<std::byte[]> made(new std::byte[bytes]);
    decode({made.get(), bytes});
    lock.lock();
    entry->bytes = std::move(made);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    held_bytes_ -= static_cast<std::int64_t>(bytes);
    by_key_.erase(key);
    entries_.erase(entry);
    decoded_.notify_all();
    throw;
  }
  decoded_.notify_all();
  return entry->bytes;
}

}  // namespace flotilla
