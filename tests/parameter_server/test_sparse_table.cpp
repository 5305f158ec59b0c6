// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/config/optimizers.hpp"
#include "src/optim/optimizer.hpp"
#include "src/parameter_server/rows/sparse_table.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using Keys = std::vector<std::uint64_t>;
using Values = std::vector<float>;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

SparseTableSpec spec_of(std::size_t width, const UpdateRule& rule = rules::Sgd{}) {
  return {.width = width, .rule = {.update = rule}, .start = {.scale = 0.5F, .seed = 7}};
}

Values pulled(SparseTable& table, const Keys& keys) {
  Values rows(keys.size() * table.width());
  table.pull(keys, rows);
  return rows;
}

PushCounts pushed(SparseTable& table, const Keys& keys, const Values& gradients, float rate = 1.0F,
                  std::int64_t step = 1) {
  const RowGradients part{.keys = keys, .values = gradients};
  return table.push(std::span(&part, 1), rate, 1.0F, step);
}

TEST(SparseTable, RowsBeginAsSeedKeyAndColumnHaveIt) {
  SparseTable table(spec_of(10));
  SparseTable reversed(spec_of(10));
  Keys keys;
  for (std::uint64_t i = 0; i < 1000; ++i) keys.push_back(i * i * 0x9E3779B97F4A7C15U);
  const Keys backwards(keys.rbegin(), keys.rend());

  pulled(reversed, backwards);
  const Values rows = pulled(table, keys);

  EXPECT_EQ(rows, pulled(reversed, keys));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Values expected(10);
    Random(7, random_rows, keys[i]).fill(expected);
    for (std::size_t column = 0; column < 10; ++column) {
      ASSERT_EQ(rows[i * 10 + column], 0.5F * (2.0F * expected[column] - 1.0F));
    }
  }
  EXPECT_EQ(table.rows(), 1000U);
}

TEST(SparseTable, RowsBeginWithTheSpreadAskedFor) {
  // The mean of n values has the deviation σ / √n, their variance about σ² √(2 / n): the bounds are six of
  // these, or more.
  constexpr std::size_t rows = 20'000;
  Keys keys(rows);
  for (std::size_t i = 0; i < rows; ++i) keys[i] = i;
  const double n = 8.0 * rows;
  for (const auto& [kind, variance] :
       {std::pair{StartKind::uniform, 0.09 / 3.0}, {StartKind::normal, 0.09}}) {
    SparseTable table({.width = 8, .start = {.kind = kind, .scale = 0.3F, .seed = 1}});
    double sum = 0.0;
    double squares = 0.0;

    for (const float value : pulled(table, keys)) {
      sum += double{value};
      squares += double{value} * double{value};
    }

    EXPECT_TRUE(test::within(std::abs(sum / n), 0.0, 6.0 * std::sqrt(variance / n)));
    EXPECT_TRUE(test::within(std::abs(squares / n - variance), 0.0, 6.0 * variance * std::sqrt(2.0 / n)));
  }
  SparseTable zeros({.width = 3, .start = {.kind = StartKind::zero}});
  EXPECT_EQ(pulled(zeros, {5, 6}), Values(6));
}

TEST(SparseTable, LookingMakesNoRow) {
  SparseTable table(spec_of(3));
  SparseTable other(spec_of(3));
  pulled(table, {1, 2});
  pushed(table, {1}, {1, 1, 1});
  Values rows(9);

  table.pull_without_insert(Keys{9, 1, 2}, rows);

  EXPECT_EQ(table.rows(), 2U);
  const Values begun = pulled(other, {9, 1, 2});
  EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + 3, begun.begin()));
  EXPECT_EQ(rows[3], begun[3] - 1.0F);
  EXPECT_TRUE(std::equal(rows.begin() + 6, rows.end(), begun.begin() + 6));
}

TEST(SparseTable, BadGradientsTouchNoRowAndAreCounted) {
  SparseTable table({.width = 2, .start = {.kind = StartKind::zero}});
  pulled(table, {1, 2, 3, 4});

  // Key 8 and 9 are not there; the gradient of each other key stays its own.
  const PushCounts counts =
      pushed(table, {8, 1, 2, 9, 3, 4}, {9, 9, -1, -2, 5, nan, 9, 9, -3, -4, -infinity, 5});

  EXPECT_EQ(counts.updated, 2U);
  EXPECT_EQ(counts.absent, 2U);
  EXPECT_EQ(counts.not_finite, 2U);
  EXPECT_EQ(table.rows(), 4U);
  EXPECT_EQ(pulled(table, {1, 2, 3, 4}), (Values{1, 2, 0, 0, 3, 4, 0, 0}));
}

TEST(SparseTable, GradientsOfOneRowAreAddedInTheirOrder) {
  SparseTable table({.width = 1, .rule = {.update = rules::Adagrad{}}, .start = {.kind = StartKind::zero}});
  SparseTable once({.width = 1, .rule = {.update = rules::Adagrad{}}, .start = {.kind = StartKind::zero}});
  pulled(table, {1, 2});
  pulled(once, {1, 2});
  // In float the order shows: 1 + 1e8 − 1e8 = 0, and 1e8 − 1e8 + 1 = 1.
  const Keys first = {1, 2, 1};
  const Values first_values = {1.0F, 3.0F, 1e8F};
  const Keys second = {1, 2};
  const Values second_values = {-1e8F, 4.0F};
  const RowGradients parts[] = {{first, first_values}, {second, second_values}};

  const PushCounts counts = table.push(parts, 0.1F, 1.0F, 1);

  EXPECT_EQ(counts.updated, 5U);
  pushed(once, {1, 2}, {(1.0F + 1e8F) - 1e8F, 7.0F}, 0.1F);
  EXPECT_EQ(pulled(table, {1, 2}), pulled(once, {1, 2}));
}

TEST(SparseTable, ASumThatIsNotFiniteTouchesNoRow) {
  constexpr float largest = std::numeric_limits<float>::max();
  SparseTable table({.width = 1, .start = {.kind = StartKind::zero}});
  pulled(table, {1, 2, 3});

  const PushCounts counts = pushed(table, {1, 2, 1, 3}, {largest, 1, largest, 2});

  EXPECT_EQ(counts.updated, 2U);
  EXPECT_EQ(counts.not_finite, 2U);
  EXPECT_EQ(pulled(table, {1, 2, 3}), (Values{0, -1, -2}));
}

TEST(SparseTable, DifferencesAreAddedWithoutTheRule) {
  SparseTable table({.width = 2, .rule = {.update = rules::Adam{}}, .start = {.kind = StartKind::zero}});
  pulled(table, {1, 2});
  const Keys keys = {1, 7, 2, 1};
  const Values deltas = {1, 2, 9, 9, 3, nan, 10, 20};

  const PushCounts counts = table.add({keys, deltas});

  EXPECT_EQ(counts.updated, 2U);
  EXPECT_EQ(counts.absent, 1U);
  EXPECT_EQ(counts.not_finite, 1U);
  EXPECT_EQ(pulled(table, {1, 2}), (Values{11, 22, 0, 0}));
}

TEST(SparseTable, ARowTouchedAtEveryStepMovesAsDenseParametersDo) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  for (const std::string kind : {"sgd", "momentum", "nesterov", "adam", "adamw", "adagrad"}) {
    for (const std::int64_t width : {1, 10, 16}) {
      OptimizerConfig config;
      config.kind = choice<OptimizerKind>(kind);
      config.weight_decay = 0.1;
      ArenaLayout layout;
      layout.add("row", {width}, ParameterKind::weight);
      const auto optimizer = make_optimizer(config, layout, *device);
      Storage parameters = device->memory().allocate(static_cast<std::size_t>(layout.size()));
      Storage gradients = device->memory().allocate(static_cast<std::size_t>(layout.size()));
      const auto floats = static_cast<std::size_t>(width);
      SparseTable table({.width = floats, .rule = row_rule(config), .start = {.scale = 1.0F, .seed = 3}});
      const Values start = pulled(table, {5});
      std::ranges::copy(start, parameters.span().address());
      const Values neighbour = pulled(table, {6});

      for (int step = 1; step <= 50; ++step) {
        Values gradient(floats);
        for (std::size_t i = 0; i < floats; ++i)
          gradient[i] = std::sin(static_cast<float>(step) + 0.3F * static_cast<float>(i));
        std::ranges::copy(gradient, gradients.span().address());
        optimizer->step(parameters.span(), gradients.span(), 0.1, 0.5);
        const Keys keys = {5};
        const RowGradients part{keys, gradient};
        table.push(std::span(&part, 1), 0.1F, 0.5F, step);
      }

      const Values row = pulled(table, {5});
      EXPECT_TRUE(std::ranges::equal(row, std::span(parameters.span().address(), floats))) << kind << width;
      // Lazy: a row that no gradient names rests, its decay too.
      EXPECT_EQ(pulled(table, {6}), neighbour);
      EXPECT_EQ(slot_names(row_rule(config)).size(), table.slots());
    }
  }
}

TEST(SparseTable, RefusesRulesThatNeedWholeTensors) {
  OptimizerConfig config;
  for (const std::string kind : {"lars", "lamb"}) {
    config.kind = choice<OptimizerKind>(kind);
    EXPECT_THROW(row_rule(config), UserError);
  }
}

TEST(SparseTable, IsReadAndWrittenInPiecesSortedByKey) {
  for (const UpdateRule& rule :
       std::initializer_list<UpdateRule>{rules::Sgd{}, rules::Momentum{}, rules::Adam{}}) {
    const std::size_t width = 5;
    SparseTable table(spec_of(width, rule));
    Keys keys;
    for (std::uint64_t i = 0; i < 3000; ++i) keys.push_back((i % 7) << 60 | i * 77);
    pulled(table, keys);
    Values gradients(keys.size() * width);
    Random(1, random_data).fill(gradients);
    for (std::int64_t step = 1; step <= 3; ++step) pushed(table, keys, gradients, 0.1F, step);

    SparseTable copy(spec_of(width, rule));
    const Keys sorted = table.sorted_keys();
    for (std::size_t first = 0; first < sorted.size(); first += 700) {
      const auto some = std::span(sorted).subspan(first, std::min<std::size_t>(700, sorted.size() - first));
      Values values(some.size() * width);
      std::vector<Values> state(table.slots(), values);
      const std::vector<std::span<float>> to(state.begin(), state.end());
      table.read(some, values, to);
      const std::vector<std::span<const float>> from(state.begin(), state.end());
      copy.write(some, values, from);
    }

    EXPECT_TRUE(std::ranges::is_sorted(sorted));
    EXPECT_EQ(sorted.size(), keys.size());
    EXPECT_EQ(copy.sorted_keys(), sorted);
    for (std::int64_t step = 4; step <= 6; ++step) {
      pushed(table, keys, gradients, 0.1F, step);
      pushed(copy, keys, gradients, 0.1F, step);
    }
    EXPECT_EQ(pulled(copy, keys), pulled(table, keys));
  }
}

TEST(SparseTable, WritingWithoutStateForgetsIt) {
  SparseTable table(spec_of(2, rules::Momentum{}));
  SparseTable fresh(spec_of(2, rules::Momentum{}));
  pulled(table, {4});
  pushed(table, {4}, {1, 2});

  table.write(Keys{4}, Values{5, 6});
  fresh.write(Keys{4}, Values{5, 6});

  pushed(table, {4}, {1, 1});
  pushed(fresh, {4}, {1, 1});
  EXPECT_EQ(pulled(table, {4}), (Values{4, 5}));
  EXPECT_EQ(pulled(table, {4}), pulled(fresh, {4}));
}

TEST(SparseTable, EmptyRequestsAndWrongSizes) {
  SparseTable table(spec_of(2));

  EXPECT_EQ(pulled(table, {}), Values{});
  EXPECT_EQ(pushed(table, {}, {}).updated, 0U);
  EXPECT_EQ(table.push({}, 1.0F, 1.0F, 1).updated, 0U);
  EXPECT_TRUE(table.sorted_keys().empty());
  Values rows(3);
  EXPECT_THROW(table.pull(Keys{1, 2}, rows), InternalError);
  EXPECT_THROW(pushed(table, {1, 2}, rows), InternalError);
  EXPECT_THROW(table.read(Keys{1}, std::span(rows).first(2)), InternalError);
  EXPECT_THROW(table.write(Keys{1}, rows), InternalError);
  EXPECT_THROW(SparseTable(spec_of(0)), InternalError);
}

/// What a table should do, in the plainest way.
class Model {
 public:
  explicit Model(const SparseTableSpec& spec) : spec_(spec) {}

  const Values& touch(std::uint64_t key) {
    Values& row = rows_[key];
    if (row.empty()) {
      row.resize(spec_.width * (1 + spec_.rule.slots()));
      float* const place = row.data();
      start_rows(spec_.start, std::span(&key, 1), std::span<float* const>(&place, 1), spec_.width);
    }
    return row;
  }
  void push(const Keys& keys, const Values& gradients, std::int64_t step, PushCounts& counts) {
    std::map<std::uint64_t, Values> sums;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Values gradient(gradients.begin() + static_cast<std::ptrdiff_t>(i * spec_.width),
                            gradients.begin() + static_cast<std::ptrdiff_t>((i + 1) * spec_.width));
      if (!rows_.contains(keys[i])) {
        ++counts.absent;
      } else if (!std::ranges::all_of(gradient, [](float value) { return std::isfinite(value); })) {
        ++counts.not_finite;
      } else {
        ++counts.updated;
        const auto [sum, first] = sums.try_emplace(keys[i], gradient);
        for (std::size_t j = 0; !first && j < spec_.width; ++j) sum->second[j] += gradient[j];
      }
    }
    for (auto& [key, sum] : sums) {
      float* const row = rows_[key].data();
      const float* const gradient = sum.data();
      update_rows(spec_.rule, {.rows = std::span(&row, 1),
                               .gradients = std::span(&gradient, 1),
                               .width = spec_.width,
                               .learning_rate = 0.05F,
                               .step = step});
    }
  }
  std::size_t size() const { return rows_.size(); }

 private:
  SparseTableSpec spec_;
  std::map<std::uint64_t, Values> rows_;
};

TEST(SparseTable, AgreesWithAPlainMapOverRandomRequests) {
  for (const std::size_t width : {1, 8, 10, 64}) {
    const SparseTableSpec spec = spec_of(width, rules::Adam{});
    SparseTable table(spec);
    Model model(spec);
    Random random(width, random_data);
    for (std::int64_t step = 1; step <= 1000; ++step) {
      Keys keys(random.below(40) * random.below(10));
      // Small keys repeat, large ones are mostly new.
      for (auto& key : keys) key = random.below(3) > 0 ? random.below(300) : random.below(1ULL << 63);
      if (random.below(2) == 0) {
        const Values rows = pulled(table, keys);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          const Values& expected = model.touch(keys[i]);
          ASSERT_TRUE(std::equal(rows.begin() + static_cast<std::ptrdiff_t>(i * width),
                                 rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * width),
                                 expected.begin()));
        }
      } else {
        Values gradients(keys.size() * width);
        random.fill(gradients);
        for (float& value : gradients)
          if (value < 0.0005F) value = nan;
        PushCounts expected;
        model.push(keys, gradients, step, expected);
        const PushCounts counts = pushed(table, keys, gradients, 0.05F, step);
        ASSERT_EQ(counts.updated, expected.updated);
        ASSERT_EQ(counts.absent, expected.absent);
        ASSERT_EQ(counts.not_finite, expected.not_finite);
      }
      ASSERT_EQ(table.rows(), model.size());
    }
    EXPECT_GT(table.rows(), 5'000U);
  }
}

}  // namespace
}  // namespace flotilla
