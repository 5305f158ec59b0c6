// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "models/embedding_bags.hpp"
#include "tests/support/allocation_count.hpp"

namespace flotilla {
namespace {

using Floats = std::vector<float>;

/// Random bags of 0 to 3 ids out of 40, some samples at the end with none, and small whole numbers, so that
/// all sums are exact.
struct Fixture {
  Fixture(std::int64_t width, std::int64_t dense_values, bool has_values)
      : bags_of({.batch = 9, .dense = dense_values, .slots = 3, .width = width}), found(3, false) {
    Random random(5, random_data);
    const auto whole = [&random] { return static_cast<float>(random.below(9)) - 4.0F; };
    for (int bag = 0; bag < 27; ++bag) {
      for (std::uint64_t left = bag < 21 ? random.below(4) : 0; left > 0; --left) {
        ids.push_back(random.below(40));
        if (has_values) values.push_back(whole());
      }
      ends.push_back(static_cast<std::int32_t>(ids.size()));
    }
    found.find(bags());
    for (Floats* to : {&rows, &drows}) to->resize(found.keys().size() * static_cast<std::size_t>(width));
    for (Floats* to : {&features, &dfeatures})
      to->resize(static_cast<std::size_t>(9 * bags_of.spec().features()));
    dense.resize(static_cast<std::size_t>(9 * dense_values));
    for (Floats* to : {&rows, &drows, &features, &dfeatures, &dense})
      for (float& value : *to) value = whole();
  }
  Bags bags() const { return {.ids = ids, .values = values, .ends = ends}; }
  float value(std::size_t id) const { return values.empty() ? 1.0F : values[id]; }
  void forward() { bags_of.forward(dense, bags(), found, rows, features); }
  void backward() { bags_of.backward(bags(), found, dfeatures, drows); }

  EmbeddingBags bags_of;
  BatchRows found;
  std::vector<std::uint64_t> ids;
  Floats values;
  std::vector<std::int32_t> ends;
  Floats dense, rows, drows, features, dfeatures;
};

/// Calls body(feature, row value, value of the id) for every product of the definition.
template <class Body>
void each_product(const Fixture& f, const Body& body) {
  const EmbeddingBagsSpec& spec = f.bags_of.spec();
  std::size_t id = 0;
  for (std::size_t bag = 0; bag < f.ends.size(); ++bag) {
    const std::size_t sample = bag / static_cast<std::size_t>(spec.slots);
    const std::size_t slot = bag % static_cast<std::size_t>(spec.slots);
    for (; id < static_cast<std::size_t>(f.ends[bag]); ++id)
      for (std::size_t c = 0; c < static_cast<std::size_t>(spec.width); ++c)
        body(sample * static_cast<std::size_t>(spec.features()) + static_cast<std::size_t>(spec.dense) +
                 slot * static_cast<std::size_t>(spec.width) + c,
             static_cast<std::size_t>(f.found.of_ids()[id]) * static_cast<std::size_t>(spec.width) + c,
             f.value(id));
  }
}

class EmbeddingBagsOf : public testing::TestWithParam<std::int64_t> {};

TEST_P(EmbeddingBagsOf, AddUpEachBag) {
  for (const bool has_values : {false, true}) {
    for (const std::int64_t dense : {0, 5}) {
      Fixture f(GetParam(), dense, has_values);
      Floats expected(f.features.size());
      for (std::size_t i = 0; i < f.dense.size(); ++i)
        expected[i / static_cast<std::size_t>(dense) * static_cast<std::size_t>(f.bags_of.spec().features()) +
                 i % static_cast<std::size_t>(dense)] = f.dense[i];
      each_product(f, [&](std::size_t feature, std::size_t row, float value) {
        expected[feature] += value * f.rows[row];
      });

      f.forward();

      EXPECT_EQ(f.features, expected) << has_values << " " << dense;
    }
  }
}

TEST_P(EmbeddingBagsOf, GiveEachRowTheGradientsOfAllThatNameIt) {
  for (const bool has_values : {false, true}) {
    Fixture f(GetParam(), 5, has_values);
    Floats expected(f.drows.size());
    each_product(f, [&](std::size_t feature, std::size_t row, float value) {
      expected[row] += value * f.dfeatures[feature];
    });

    f.backward();

    EXPECT_EQ(f.drows, expected) << has_values;
  }
}
INSTANTIATE_TEST_SUITE_P(Widths, EmbeddingBagsOf, testing::Values(1, 3, 4, 8, 10, 16, 17, 32, 64));

TEST(EmbeddingBags, AllocateNothing) {
  Fixture f(10, 5, true);

  const std::int64_t before = test::allocations_of_this_thread();
  f.forward();
  f.backward();

  EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
}

TEST(EmbeddingBags, RefuseArraysOfAnotherSize) {
  Fixture f(8, 5, false);

  Floats shorter(f.rows.begin(), f.rows.end() - 1);
  EXPECT_THROW(f.bags_of.forward(f.dense, f.bags(), f.found, shorter, f.features), InternalError);
  EXPECT_THROW(f.bags_of.backward(f.bags(), f.found, f.dfeatures, shorter), InternalError);
  EXPECT_THROW(f.bags_of.forward({}, f.bags(), f.found, f.rows, f.features), InternalError);
  EXPECT_THROW(f.bags_of.forward(f.dense, {}, f.found, f.rows, f.features), InternalError);
  EXPECT_THROW(EmbeddingBags({.batch = 1, .dense = 0, .slots = 1, .width = 0}), InternalError);
}

}  // namespace
}  // namespace flotilla
