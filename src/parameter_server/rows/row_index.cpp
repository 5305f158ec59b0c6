// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/rows/row_index.hpp"

#include <cmath>
#include <utility>

namespace flotilla {

namespace {

// Fuller, searches run on into the next buckets; emptier, memory is wasted (tests/bench/sparse_table_bench).
constexpr double largest_load = 0.8;
constexpr double growth = 1.5;

}  // namespace

RowIndex::RowIndex() {
  // All shards fill alike: begun with different sizes, they grow at different times.
  for (std::size_t i = 0; i < shard_count; ++i)
    shards_[i] = make_shard(Pages::page * std::pow(growth, static_cast<double>(i) / shard_count));
}

RowIndex::Shard RowIndex::make_shard(double wanted) {
  auto bytes = static_cast<std::size_t>(wanted);
  // Huge pages need whole ones; below 8 MiB that would round too much.
  if (bytes >= 4 * Pages::huge_page) bytes = bytes / Pages::huge_page * Pages::huge_page;
  Shard shard{.pages = Pages(bytes), .wanted = wanted};
  shard.count = shard.pages.bytes() / sizeof(Bucket);
  shard.limit = static_cast<std::size_t>(largest_load * static_cast<double>(shard.count * bucket_slots));
  return shard;
}

std::uint32_t RowIndex::find(std::uint64_t key, std::uint64_t hash) const {
  const Shard& shard = shard_of(hash);
  const Bucket* const buckets = shard.buckets();
  for (std::size_t i = first_bucket(hash, shard.count);;) {
    const Bucket& bucket = buckets[i];
    const std::size_t slot = bucket.slot_of(key);
    if (slot < bucket_slots) return bucket.rows[slot];
    if (bucket.used < bucket_slots) return none;
    if (++i == shard.count) i = 0;
  }
}

RowIndex::Found RowIndex::find_or_add(std::uint64_t key, std::uint64_t hash, std::uint32_t row) {
  Shard& shard = shards_[hash >> 60];
  if (shard.used >= shard.limit) grow(shard);
  Bucket* const buckets = shard.buckets();
  for (std::size_t i = first_bucket(hash, shard.count);;) {
    Bucket& bucket = buckets[i];
    const std::size_t slot = bucket.slot_of(key);
    if (slot < bucket_slots) return {.row = bucket.rows[slot], .added = false};
    if (bucket.used < bucket_slots) {
      bucket.keys[bucket.used] = key;
      bucket.rows[bucket.used] = row;
      ++bucket.used;
      ++shard.used;
      return {.row = row, .added = true};
    }
    if (++i == shard.count) i = 0;
  }
}

void RowIndex::grow(Shard& shard) {
  Shard larger = make_shard(growth * shard.wanted);
  Bucket* const buckets = larger.buckets();
  for (std::size_t from = 0; from < shard.count; ++from) {
    const Bucket& bucket = shard.buckets()[from];
    for (std::size_t slot = 0; slot < bucket.used; ++slot) {
      std::size_t i = first_bucket(hash(bucket.keys[slot]), larger.count);
      while (buckets[i].used == bucket_slots)
        if (++i == larger.count) i = 0;
      buckets[i].keys[buckets[i].used] = bucket.keys[slot];
      buckets[i].rows[buckets[i].used] = bucket.rows[slot];
      ++buckets[i].used;
    }
  }
  larger.used = shard.used;
  shard = std::move(larger);
}

std::size_t RowIndex::size() const {
  std::size_t keys = 0;
  for (const Shard& shard : shards_) keys += shard.used;
  return keys;
}

std::size_t RowIndex::bytes() const {
  std::size_t bytes = 0;
  for (const Shard& shard : shards_) bytes += shard.pages.bytes();
  return bytes;
}

}  // namespace flotilla
