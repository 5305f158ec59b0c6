// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "src/parameter_server/rows/pages.hpp"

namespace flotilla {

/// Maps 64-bit keys to row numbers. A hash table of buckets of one cache line each, so that a search usually
/// reads one line. It grows segment by segment, so that little memory is held twice and no request waits
/// long.
class RowIndex {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFFU;
  static constexpr std::uint32_t unsure = 0xFFFFFFFEU;
  static constexpr std::uint32_t rows_at_most = 0xFFFFFFFEU;

  struct Found {
    std::uint32_t row = none;
    bool added = false;
  };

  RowIndex();

  /// The hash that find() and find_or_add() take along with the key: the finalizer of MurmurHash3, a
  /// bijection.
  static std::uint64_t hash(std::uint64_t key) {
    key = (key ^ (key >> 33)) * 0xFF51AFD7ED558CCDU;
    key = (key ^ (key >> 33)) * 0xC4CEB9FE1A85EC53U;
    return key ^ (key >> 33);
  }
  /// The cache line that a search reads first, for the caller to prefetch, and the next one. (GCC 12 takes a
  /// function that only prefetches for one without effect, and drops the call.)
  const void* line_of(std::uint64_t hash) const { return bucket_of(hash); }
  const void* next_line_of(std::uint64_t hash) const { return bucket_of(hash) + 1; }

  /// Like find(), but reads one line: `unsure` if the key may be in the next one.
  std::uint32_t find_in_line(std::uint64_t key, std::uint64_t hash) const {
    const Bucket& bucket = *bucket_of(hash);
    const std::size_t slot = bucket.slot_of(key);
    if (slot < bucket_slots) return bucket.rows[slot];
    return bucket.used < bucket_slots ? none : unsure;
  }

  std::uint32_t find(std::uint64_t key, std::uint64_t hash) const;  ///< `none` if the key is absent
  Found find_or_add(std::uint64_t key, std::uint64_t hash, std::uint32_t row);

  std::size_t bytes() const;
  /// Calls visit(key, row) for all keys, in an unspecified order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Segment& segment : segments_) {
      for (std::size_t i = 0; i < segment.count; ++i) {
        const Bucket& bucket = segment.buckets()[i];
        for (std::size_t slot = 0; slot < bucket.used; ++slot) visit(bucket.keys[slot], bucket.rows[slot]);
      }
    }
  }

  static constexpr std::size_t segment_count = 16;
  /// Memory of a large index for a row, while it grows. A segment takes 64 / 5 / 0.8 = 16 bytes for a row
  /// when it is full, and half as much again when it grew; as they grow one after another they take 19.7 on
  /// average. The old memory of one segment is held meanwhile, and sizes are rounded up to whole pages.
  static constexpr double bytes_per_row = 22.0;

 private:
  static constexpr std::size_t bucket_slots = 5;

  struct alignas(64) Bucket {
    std::array<std::uint64_t, bucket_slots> keys;
    std::array<std::uint32_t, bucket_slots> rows;
    std::uint32_t used;  ///< Slots, from the first on. A search ends in a bucket that is not full.

    /// The slot of the key, or bucket_slots. Without a branch: the slot cannot be predicted.
    std::size_t slot_of(std::uint64_t key) const {
      std::uint32_t equal = 0;
#pragma GCC unroll 5
      for (std::size_t slot = 0; slot < bucket_slots; ++slot)
        equal |= static_cast<std::uint32_t>(keys[slot] == key) << slot;
      equal &= (1U << used) - 1;  // keys of unused slots are zero
      equal |= 1U << bucket_slots;
      return static_cast<std::size_t>(std::countr_zero(equal));
    }
  };
  static_assert(sizeof(Bucket) == 64);

  struct Segment {
    Pages pages;
    double wanted = 0.0;    ///< Bytes, before they are rounded
    std::size_t count = 0;  ///< Buckets
    std::size_t used = 0;   ///< Slots
    std::size_t limit = 0;  ///< Limit of `used`, at which the index grows
    Bucket* buckets() const { return reinterpret_cast<Bucket*>(pages.data()); }
  };

  static Segment make_segment(double wanted);
  static void grow(Segment& segment);
  const Segment& segment_of(std::uint64_t hash) const {
    return segments_[hash >> 60];
  }
  const Bucket* bucket_of(std::uint64_t hash) const {
    const Segment& segment = segment_of(hash);
    return segment.buckets() + first_bucket(hash, segment.count);
  }
  /// Monotone in the hash: a segment that grows is read and written from its start to its end.
  static std::size_t first_bucket(std::uint64_t hash, std::size_t count) {
    return static_cast<std::size_t>((((hash << 4) >> 32) * count) >> 32);
  }

  std::array<Segment, segment_count> segments_;
};

}  // namespace flotilla
