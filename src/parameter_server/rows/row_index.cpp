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
  // All segments fill at the same rate: starting with different sizes, they grow at different times.
  for (std::size_t i = 0; i < segment_count; ++i)
    segments_[i] = make_segment(Pages::page * std::pow(growth, static_cast<double>(i) / segment_count));
}

RowIndex::Segment RowIndex::make_segment(double wanted) {
  auto bytes = static_cast<std::size_t>(wanted);
  // Huge pages need whole ones; below 8 MiB that would round too much.
  if (bytes >= 4 * Pages::huge_page) bytes = bytes / Pages::huge_page * Pages::huge_page;
  Segment segment{.pages = Pages(bytes), .wanted = wanted};
  segment.count = segment.pages.bytes() / sizeof(Bucket);
  segment.limit = static_cast<std::size_t>(largest_load * static_cast<double>(segment.count * bucket_slots));
  return segment;
}

std::uint32_t RowIndex::find(std::uint64_t key, std::uint64_t hash) const {
  const Segment& segment = segment_of(hash);
  const Bucket* const buckets = segment.buckets();
  for (std::size_t i = first_bucket(hash, segment.count);;) {
    const Bucket& bucket = buckets[i];
    const std::size_t slot = bucket.slot_of(key);
    if (slot < bucket_slots) return bucket.rows[slot];
    if (bucket.used < bucket_slots) return none;
    if (++i == segment.count) i = 0;
  }
}

RowIndex::Found RowIndex::find_or_add(std::uint64_t key, std::uint64_t hash, std::uint32_t row) {
  Segment& segment = segments_[hash >> 60];
  if (segment.used >= segment.limit) grow(segment);
  Bucket* const buckets = segment.buckets();
  for (std::size_t i = first_bucket(hash, segment.count);;) {
    Bucket& bucket = buckets[i];
    const std::size_t slot = bucket.slot_of(key);
    if (slot < bucket_slots) return {.row = bucket.rows[slot], .added = false};
    if (bucket.used < bucket_slots) {
      bucket.keys[bucket.used] = key;
      bucket.rows[bucket.used] = row;
      ++bucket.used;
      ++segment.used;
      return {.row = row, .added = true};
    }
    if (++i == segment.count) i = 0;
  }
}

void RowIndex::grow(Segment& segment) {
  Segment larger = make_segment(growth * segment.wanted);
  Bucket* const buckets = larger.buckets();
  for (std::size_t from = 0; from < segment.count; ++from) {
    const Bucket& bucket = segment.buckets()[from];
    for (std::size_t slot = 0; slot < bucket.used; ++slot) {
      std::size_t i = first_bucket(hash(bucket.keys[slot]), larger.count);
      while (buckets[i].used == bucket_slots)
        if (++i == larger.count) i = 0;
      buckets[i].keys[buckets[i].used] = bucket.keys[slot];
      buckets[i].rows[buckets[i].used] = bucket.rows[slot];
      ++buckets[i].used;
    }
  }
  larger.used = segment.used;
  segment = std::move(larger);
}

std::size_t RowIndex::bytes() const {
  std::size_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.pages.bytes();
  return bytes;
}

}  // namespace flotilla
