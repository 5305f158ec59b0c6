// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/server/pages.hpp"

namespace flotilla {

/// Where the row of a key is: number of the row by key. A hash table of buckets of one cache line, so that a
/// search reads one line as a rule; shards grow by themselves, so that only one of them is ever held twice.
class RowIndex {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFFU;

  struct Found {
    std::uint32_t row = none;
    bool added = false;
  };

  RowIndex();

  /// What find() and find_or_add() want beside the key: the finalizer of MurmurHash3, a bijection.
  static std::uint64_t hash(std::uint64_t key) {
    key = (key ^ (key >> 33)) * 0xFF51AFD7ED558CCDU;
    key = (key ^ (key >> 33)) * 0xC4CEB9FE1A85EC53U;
    return key ^ (key >> 33);
  }
  void prefetch(std::uint64_t hash) const {
    const Shard& shard = shard_of(hash);
    __builtin_prefetch(shard.buckets() + first_bucket(hash, shard.count));
  }

  std::uint32_t find(std::uint64_t key, std::uint64_t hash) const;  ///< none if it is not there
  Found find_or_add(std::uint64_t key, std::uint64_t hash, std::uint32_t row);

  std::size_t size() const;
  std::size_t bytes() const;
  /// Calls visit(key, row) for all keys, in an order that depends on the keys alone and on how many there
  /// are.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Shard& shard : shards_) {
      for (std::size_t i = 0; i < shard.count; ++i) {
        const Bucket& bucket = shard.buckets()[i];
        for (std::size_t slot = 0; slot < bucket.used; ++slot) visit(bucket.keys[slot], bucket.rows[slot]);
      }
    }
  }

  static constexpr std::size_t shard_count = 16;
  static constexpr double bytes_per_row_at_most = 25.0;  ///< 64 / 5 / 0.8 · 1.5, and rounding; large tables
  static constexpr double growing_bytes_per_row = 1.0;   ///< The one shard that is held twice

 private:
  static constexpr std::size_t bucket_slots = 5;

  struct alignas(64) Bucket {
    std::array<std::uint64_t, bucket_slots> keys;
    std::array<std::uint32_t, bucket_slots> rows;
    std::uint32_t used;  ///< Slots, from the first on. A search ends in a bucket that is not full.
  };
  static_assert(sizeof(Bucket) == 64);

  struct Shard {
    Pages pages;
    std::size_t count = 0;  ///< Buckets
    std::size_t used = 0;   ///< Slots
    std::size_t limit = 0;  ///< Of `used`, before it grows
    Bucket* buckets() const { return reinterpret_cast<Bucket*>(pages.data()); }
  };

  static Shard make_shard(std::size_t bytes);
  static void grow(Shard& shard);
  const Shard& shard_of(std::uint64_t hash) const { return shards_[hash >> 60]; }
  /// Monotone in the hash: a shard that grows is read and written from its start to its end.
  static std::size_t first_bucket(std::uint64_t hash, std::size_t count) {
    return static_cast<std::size_t>((((hash << 4) >> 32) * count) >> 32);
  }

  std::array<Shard, shard_count> shards_;
};

}  // namespace flotilla
