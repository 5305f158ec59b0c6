// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/bags.hpp"

namespace flotilla {

/// Which rows of a sparse table a batch needs. A row's key is the id itself; with `per_slot` the slot is
/// mixed in, so that an id has a row for every slot. Its memory grows to that of the largest batch and is
/// reused: 12 bytes an id, and 8 to 16 for the index.
class BatchRows {
 public:
  BatchRows(std::int64_t slots, bool per_slot);

  /// @throws InternalError where the bags do not fit together.
  void find(const Bags& bags);

  /// The distinct keys of the last find(), in the order in which its ids name them first.
  std::span<const std::uint64_t> keys() const { return {keys_.data(), distinct_}; }
  /// The index into keys() of each id of the last find().
  std::span<const std::int32_t> of_ids() const { return {rows_.data(), ids_}; }

 private:
  void check(const Bags& bags) const;
  void make_room(std::size_t ids);

  std::vector<std::uint64_t> salts_;  ///< Of each slot
  std::vector<std::uint64_t> keys_;
  std::vector<std::int32_t> rows_;
  std::vector<std::uint32_t> places_;  ///< Open addressing by key: 1 + its index in keys_; 0: free
  std::size_t ids_ = 0;
  std::size_t distinct_ = 0;
};

}  // namespace flotilla
