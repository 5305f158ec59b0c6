// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/flat/host_flat.hpp"
#include "kernels/random.hpp"
#include "kernels/row_update.hpp"

namespace flotilla {
namespace {

std::vector<float> random_values(std::size_t count, std::uint64_t index) {
  std::vector<float> values(count);
  Random(3, random_data, index).fill(values);
  for (float& value : values) value -= 0.5F;
  return values;
}

DeviceSpan<float> device(std::vector<float>& values) {
  return {values.data(), values.size()};
}

TEST(RowUpdate, GivesTheBitsOfTheDenseRule) {
  constexpr std::size_t rows = 37;
  for (const UpdateRule& update : std::initializer_list<UpdateRule>{
           rules::Sgd{}, rules::Momentum{}, rules::Nesterov{}, rules::Adam{}, rules::Adagrad{}}) {
    for (const auto decay : {Decay::coupled, Decay::decoupled}) {
      for (const std::size_t width : {1, 3, 8, 10, 16, 21, 64, 100}) {
        const RowRule rule{.update = update, .decay = decay, .weight_decay = 0.01F};
        const std::size_t slots = rule.slots();
        std::vector<float> dense = random_values(rows * width, 0);
        std::vector<std::vector<float>> state(slots, std::vector<float>(rows * width));
        std::vector<float> records(rows * width * (1 + slots));
        std::vector<float*> places;
        for (std::size_t row = 0; row < rows; ++row) {
          // Last rows first: where they lie does not matter.
          places.push_back(records.data() + (rows - 1 - row) * width * (1 + slots));
          std::copy_n(dense.data() + row * width, width, places.back());
        }
        const FlatRange all{
            .offset = 0, .count = static_cast<std::int64_t>(dense.size()), .weight_decay = 0.01F};

        for (std::int64_t step = 1; step <= 20; ++step) {
          const auto gradients = random_values(rows * width, static_cast<std::uint64_t>(step));
          std::vector<const float*> of_rows;
          for (std::size_t row = 0; row < rows; ++row) of_rows.push_back(gradients.data() + row * width);
          update_rows(rule, {.rows = places,
                             .gradients = of_rows,
                             .width = width,
                             .learning_rate = 0.1F,
                             .gradient_scale = 0.3F,
                             .step = step});
          UpdateState arrays;
          for (std::size_t slot = 0; slot < slots; ++slot) arrays[slot] = device(state[slot]);
          HostFlat(1).update({.parameters = device(dense),
                              .gradients = {gradients.data(), gradients.size()},
                              .ranges = std::span(&all, 1),
                              .learning_rate = 0.1F,
                              .gradient_scale = 0.3F,
                              .decay = decay,
                              .step = step},
                             update, arrays);
        }

        for (std::size_t row = 0; row < rows; ++row) {
          const auto at = static_cast<std::ptrdiff_t>(row * width);
          ASSERT_TRUE(std::equal(places[row], places[row] + width, dense.begin() + at))
              << update.index() << " width " << width;
          for (std::size_t slot = 0; slot < slots; ++slot) {
            ASSERT_TRUE(std::equal(places[row] + (1 + slot) * width, places[row] + (2 + slot) * width,
                                   state[slot].begin() + at));
          }
        }
      }
    }
  }
}

TEST(RowUpdate, ChecksItsInput) {
  std::vector<float> row(30);
  float* const place = row.data();
  const std::vector<const float*> gradients(2, row.data());

  EXPECT_THROW(update_rows({}, {.rows = std::span(&place, 1), .gradients = gradients, .width = 10}),
               InternalError);
  EXPECT_THROW(update_rows({.update = rules::Adam{}}, {.width = 10, .step = 0}), InternalError);
  EXPECT_THROW(update_rows({.update = rules::Adagrad{.epsilon = 0.0F}}, {.width = 10}), InternalError);
  EXPECT_THROW(update_rows({.update = rules::LambDirection{}}, {.width = 10}), InternalError);
}

TEST(RowUpdate, SeesWhatIsNotFinite) {
  for (const std::size_t width : {1, 8, 10, 16, 33}) {
    for (std::size_t i = 0; i < width; ++i) {
      std::vector<float> values(width, std::numeric_limits<float>::max());
      EXPECT_TRUE(finite(values));
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}) {
        values[i] = bad;
        EXPECT_FALSE(finite(values));
      }
    }
  }
  EXPECT_TRUE(finite({}));
}

}  // namespace
}  // namespace flotilla
