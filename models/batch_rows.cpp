// SPDX-License-Identifier: Apache-2.0
#include "models/batch_rows.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15U;  // Of 2^64: Knuth's multiplicative hash

/// The output function of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014): one to one.
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31U);
}

}  // namespace

BatchRows::BatchRows(std::int64_t slots, bool per_slot) : salts_(static_cast<std::size_t>(slots)) {
  require(slots > 0, "rows are looked up for at least one slot");
  if (!per_slot) return;
  for (std::size_t slot = 0; slot < salts_.size(); ++slot) salts_[slot] = mixed((slot + 1) * golden_ratio);
}

void BatchRows::check(const Bags& bags) const {
  const std::size_t bag_count = bags.ends.size();
  const std::size_t last = bag_count == 0 ? 0 : static_cast<std::size_t>(bags.ends.back());
  require(bag_count % salts_.size() == 0, bag_count, " bags are no rows of ", salts_.size(), " slots");
  require(last == bags.ids.size(), "the bags end at ", last, " of ", bags.ids.size(), " ids");
  require(bags.values.empty() || bags.values.size() == bags.ids.size(), bags.ids.size(), " ids have ",
          bags.values.size(), " values");
  require(bags.ids.size() <= std::numeric_limits<std::int32_t>::max(), "a batch has ", bags.ids.size(),
          " ids, more than can be counted");
}

void BatchRows::make_room(std::size_t ids) {
  if (rows_.size() < ids) {
    rows_.resize(ids);
    keys_.resize(ids);
  }
  // At most half full: a search seldom takes a second step.
  const std::size_t places = std::bit_ceil(std::max<std::size_t>(64, 2 * ids));
  if (places_.size() < places) places_.resize(places);
}

void BatchRows::find(const Bags& bags) {
  check(bags);
  make_room(bags.ids.size());
  ids_ = bags.ids.size();
  distinct_ = 0;
  // Of a table made for larger batches only what this one needs is cleared and used.
  const std::size_t places = std::bit_ceil(std::max<std::size_t>(64, 2 * ids_));
  const std::size_t mask = places - 1;
  const int shift = 64 - std::countr_zero(places);
  std::fill_n(places_.begin(), places, 0U);

  std::size_t i = 0;
  std::size_t slot = 0;
  std::uint64_t* const keys = keys_.data();
  for (const std::int32_t end : bags.ends) {
    require(static_cast<std::size_t>(end) >= i && static_cast<std::size_t>(end) <= ids_, "a bag ends at id ",
            end, " and begins at ", i);
    const std::uint64_t salt = salts_[slot];
    slot = slot + 1 == salts_.size() ? 0 : slot + 1;
    for (; i < static_cast<std::size_t>(end); ++i) {
      const std::uint64_t key = bags.ids[i] ^ salt;
      std::size_t place = (key * golden_ratio) >> static_cast<unsigned>(shift);
      while (places_[place] != 0 && keys[places_[place] - 1] != key) place = (place + 1) & mask;
      if (places_[place] == 0) {
        keys[distinct_] = key;
        places_[place] = static_cast<std::uint32_t>(++distinct_);
      }
      rows_[i] = static_cast<std::int32_t>(places_[place] - 1);
    }
  }
}

}  // namespace flotilla
