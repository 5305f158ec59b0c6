// SPDX-License-Identifier: Apache-2.0
#include "models/embedding_bags.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <type_traits>

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
  // The table may be larger, made for a larger batch: only the part for this batch is cleared and used.
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

namespace {

template <std::int64_t width>
using Width = std::integral_constant<std::int64_t, width>;

/// Calls body with a width that the compiler knows where it is a usual one: loops of unknown length take
/// three times as long over ten values.
template <class Body>
void with_width(std::int64_t width, const Body& body) {
  switch (width) {
    case 4: return body(Width<4>{});
    case 8: return body(Width<8>{});
    case 10: return body(Width<10>{});
    case 16: return body(Width<16>{});
    case 32: return body(Width<32>{});
    case 64: return body(Width<64>{});
    default: return body(width);
  }
}

template <class W>
void scale(W width, float value, const float* __restrict from, float* __restrict to) {
  for (std::int64_t c = 0; c < width; ++c) to[c] = value * from[c];
}

template <class W>
void add_scaled(W width, float value, const float* __restrict from, float* __restrict to) {
  for (std::int64_t c = 0; c < width; ++c) to[c] += value * from[c];
}

/// A batch's bags by plain addresses.
struct Walk {
  std::int64_t batch;
  std::int64_t dense;
  std::int64_t slots;
  const std::int32_t* ends;
  const std::int32_t* rows;
  const float* values;  ///< Null: all 1

  float value(std::int64_t id) const { return values == nullptr ? 1.0F : values[id]; }
};

Walk walk_of(const EmbeddingBagsSpec& spec, const Bags& bags, const BatchRows& found) {
  return {spec.batch,
          spec.dense,
          spec.slots,
          bags.ends.data(),
          found.of_ids().data(),
          bags.values.empty() ? nullptr : bags.values.data()};
}

template <class W>
void pool(W width, const Walk& bags, const float* rows, float* features) {
  std::int64_t id = 0;
  const std::int32_t* end = bags.ends;
  for (std::int64_t sample = 0; sample < bags.batch; ++sample) {
    features += bags.dense;
    for (std::int64_t slot = 0; slot < bags.slots; ++slot, ++end, features += width) {
      if (id == *end) {
        std::fill_n(features, static_cast<std::int64_t>(width), 0.0F);
        continue;
      }
      scale(width, bags.value(id), rows + bags.rows[id] * width, features);
      for (++id; id < *end; ++id) add_scaled(width, bags.value(id), rows + bags.rows[id] * width, features);
    }
  }
}

template <class W>
void spread(W width, const Walk& bags, const float* dfeatures, float* drows) {
  std::int64_t id = 0;
  const std::int32_t* end = bags.ends;
  for (std::int64_t sample = 0; sample < bags.batch; ++sample) {
    dfeatures += bags.dense;
    for (std::int64_t slot = 0; slot < bags.slots; ++slot, ++end, dfeatures += width)
      for (; id < *end; ++id) add_scaled(width, bags.value(id), dfeatures, drows + bags.rows[id] * width);
  }
}

}  // namespace

EmbeddingBags::EmbeddingBags(const EmbeddingBagsSpec& spec) : spec_(spec) {
  require(spec.batch > 0 && spec.dense >= 0 && spec.slots > 0 && spec.width > 0,
          "embeddings need a batch, slots and a width, got ", spec.batch, ", ", spec.slots, " and ",
          spec.width);
}

void EmbeddingBags::check(const Bags& bags, const BatchRows& found, std::size_t rows,
                          std::size_t features) const {
  require(bags.ends.size() == static_cast<std::size_t>(spec_.batch * spec_.slots), "a batch of ", spec_.batch,
          " samples with ", spec_.slots, " slots came with ", bags.ends.size(), " bags");
  require(found.of_ids().size() == bags.ids.size(), "the rows of ", found.of_ids().size(),
          " ids were found, the batch has ", bags.ids.size());
  require(rows == found.keys().size() * static_cast<std::size_t>(spec_.width), found.keys().size(),
          " rows of width ", spec_.width, " came as ", rows, " values");
  require(features == static_cast<std::size_t>(spec_.batch * spec_.features()), "a batch of ", spec_.batch,
          " samples with ", spec_.features(), " features came as ", features, " values");
}

void EmbeddingBags::forward(std::span<const float> dense, const Bags& bags, const BatchRows& found,
                            std::span<const float> rows, std::span<float> features) const {
  check(bags, found, rows.size(), features.size());
  require(dense.size() == static_cast<std::size_t>(spec_.batch * spec_.dense), "a batch of ", spec_.batch,
          " samples with ", spec_.dense, " dense values came as ", dense.size());
  for (std::int64_t sample = 0; sample < spec_.batch; ++sample)
    std::copy_n(dense.data() + sample * spec_.dense, spec_.dense,
                features.data() + sample * spec_.features());
  with_width(spec_.width,
             [&](auto width) { pool(width, walk_of(spec_, bags, found), rows.data(), features.data()); });
}

void EmbeddingBags::backward(const Bags& bags, const BatchRows& found, std::span<const float> dfeatures,
                             std::span<float> drows) const {
  check(bags, found, drows.size(), dfeatures.size());
  std::ranges::fill(drows, 0.0F);
  with_width(spec_.width,
             [&](auto width) { spread(width, walk_of(spec_, bags, found), dfeatures.data(), drows.data()); });
}

}  // namespace flotilla
