// SPDX-License-Identifier: Apache-2.0
#include "models/embedding_bags.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "kernels/error.hpp"

namespace flotilla {

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
