// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <vector>

#include "kernels/random.hpp"
#include "src/parameter_server/rows/sparse_table.hpp"
#include "src/parameter_server/worker/local_rows.hpp"

namespace flotilla {
namespace {

using Keys = std::vector<std::uint64_t>;
using Values = std::vector<float>;

constexpr std::size_t width = 2;
constexpr float infinity = std::numeric_limits<float>::infinity();

Keys keys_of(std::span<const std::uint64_t> keys) {
  return {keys.begin(), keys.end()};
}

/// The rows of a batch, of which `pulled` is what the servers have of those that are asked for.
Values rows_of(LocalRows& rows, const Keys& keys, const Values& pulled) {
  rows.find(keys);
  rows.take(pulled);
  Values values(keys.size() * width);
  rows.read(values);
  return values;
}

Values pushed(LocalRows& rows, float share) {
  Values differences(rows.trained().size() * width);
  rows.push(share, differences);
  return differences;
}

TEST(LocalRows, BeginAsTheServersHaveThem) {
  LocalRows rows(width, {.update = rules::Adam{}});

  EXPECT_EQ(keys_of(rows.find(Keys{7, 3})), (Keys{7, 3}));
  EXPECT_EQ(rows_of(rows, {7, 3}, {1, 2, 3, 4}), (Values{1, 2, 3, 4}));
  EXPECT_EQ(rows.rows(), 2U);
}

TEST(LocalRows, ArePulledOnceInAPeriodUnlessTheyCameWithItsBeginning) {
  LocalRows rows(width, {});
  rows_of(rows, {1, 2}, {1, 1, 2, 2});
  EXPECT_EQ(keys_of(rows.find(Keys{2, 3})), Keys{3});
  rows_of(rows, {2, 3}, {3, 3});
  rows_of(rows, {1}, {});
  rows.train(Values{1, 1}, 0.5F, 1);
  pushed(rows, 1.0F);
  rows.apply_pulled(Values{0, 0});

  EXPECT_EQ(keys_of(rows.find(Keys{1, 2, 3})), (Keys{2, 3}));
  rows.pull_all_again();
  EXPECT_EQ(keys_of(rows.find(Keys{1, 2, 3})), (Keys{1, 2, 3}));
}

TEST(LocalRows, TakeOverWhatOthersDidBesideTheirOwn) {
  LocalRows rows(width, {});
  rows_of(rows, {5}, {1, 2});
  rows.train(Values{-1, -2}, 1.0F, 1);  // now 2, 4

  EXPECT_EQ(pushed(rows, 0.5F), (Values{0.5F, 1}));  // the servers have 1.5, 3, and 8 more of others
  rows.apply_pulled(Values{9.5F, 11});

  EXPECT_EQ(rows_of(rows, {5}, {}), (Values{10, 12}));
  rows.pull_all_again();
  EXPECT_EQ(rows_of(rows, {5}, {10.5F, 12}), (Values{11, 13}));
}

TEST(LocalRows, PushEachRowOnceHoweverOftenItWasTrained) {
  LocalRows rows(width, {});
  rows_of(rows, {1, 2}, {0, 0, 0, 0});
  for (int i = 0; i < 3; ++i) rows.train(Values{1, 1, 2, 2}, 1.0F, 1);
  rows_of(rows, {2}, {});
  rows.train(Values{2, 2}, 1.0F, 1);

  EXPECT_EQ(keys_of(rows.trained()), (Keys{1, 2}));
  EXPECT_EQ(pushed(rows, 1.0F), (Values{-3, -3, -8, -8}));
  rows.apply_pulled(Values{-3, -3, -8, -8});
  EXPECT_TRUE(rows.trained().empty());
}

TEST(LocalRows, LeaveOutGradientsThatAreNotFinite) {
  LocalRows rows(width, {.update = rules::Momentum{}});
  rows_of(rows, {1, 2}, {1, 1, 2, 2});

  rows.train(Values{0, infinity, 1, 1}, 1.0F, 1);

  EXPECT_EQ(rows.not_finite(), 1);
  EXPECT_EQ(keys_of(rows.trained()), Keys{2});
  EXPECT_EQ(rows_of(rows, {1, 2}, {}), (Values{1, 1, 1, 1}));
}

/// The only worker of servers that add what it pushes.
class OneWorker {
 public:
  OneWorker(const SparseTableSpec& spec) : rows_(spec.width, spec.rule), served_(spec) {}

  Values train(const Keys& keys, const Values& gradients, float learning_rate, std::int64_t step) {
    const Keys missing = keys_of(rows_.find(keys));
    Values pulled(missing.size() * width);
    served_.pull(missing, pulled);
    rows_.take(pulled);
    rows_.train(gradients, learning_rate, step);
    Values values(gradients.size());
    rows_.read(values);
    return values;
  }
  void push() {
    const Keys keys = keys_of(rows_.trained());
    const Values differences = pushed(rows_, 1.0F);
    served_.add({.keys = keys, .values = differences});
    Values values(differences.size());
    served_.pull(keys, values);
    rows_.apply_pulled(values);
  }

 private:
  LocalRows rows_;
  SparseTable served_;
};

TEST(LocalRows, OfOneWorkerAreThoseOfATableThatIsTrained) {
  for (const UpdateRule& rule : std::initializer_list<UpdateRule>{
           rules::Sgd{}, rules::Momentum{}, rules::Nesterov{}, rules::Adam{}, rules::Adagrad{}}) {
    const SparseTableSpec spec = {
        .width = width, .rule = {.update = rule, .weight_decay = 0.01F}, .start = {.scale = 1.0F, .seed = 1}};
    SparseTable alone(spec);
    OneWorker worker(spec);
    for (std::int64_t step = 1; step <= 50; ++step) {
      Random random(1, random_data, static_cast<std::uint64_t>(step));
      Keys keys;
      for (std::uint64_t key = 0; key < 20; ++key)
        if (random.below(3) == 0) keys.push_back(key);
      Values gradients(keys.size() * width);
      random.fill(gradients);
      Values expected(gradients.size());
      alone.pull(keys, expected);
      alone.push(std::vector{RowGradients{keys, gradients}}, 0.1F, 1.0F, step);
      alone.pull(keys, expected);

      ASSERT_EQ(worker.train(keys, gradients, 0.1F, step), expected) << "step " << step;

      if (step % 7 == 0) worker.push();
    }
  }
}

TEST(LocalRows, GoOnAsTheyWereSaved) {
  const RowRule rule = {.update = rules::Adam{}};
  LocalRows rows(width, rule);
  const Keys batch = {9, 4, 6};
  rows_of(rows, batch, {1, 2, 3, 4, 5, 6});
  rows.train(Values{1, 2, 3, 4, 5, 6}, 0.1F, 1);
  const Values differences = pushed(rows, 1.0F);
  Values served(differences.size());
  for (std::size_t i = 0; i < served.size(); ++i) served[i] = static_cast<float>(i + 1) + differences[i];
  rows.apply_pulled(served);
  rows.pull_all_again();

  const Keys keys = rows.sorted_keys();
  std::vector<Values> arrays(1 + rows.slot_names().size(), Values(keys.size() * width));
  for (std::size_t i = 0; i < arrays.size(); ++i) rows.read(keys, i, arrays[i]);
  LocalRows others(width, rule);
  others.write(keys, std::vector<std::span<const float>>(arrays.begin(), arrays.end()));

  EXPECT_EQ(keys, (Keys{4, 6, 9}));
  EXPECT_EQ(rows.slot_names(), (std::vector<std::string>{"adam_m", "adam_v", "pulled"}));
  for (LocalRows* each : {&rows, &others}) {
    rows_of(*each, batch, served);
    each->train(Values{6, 5, 4, 3, 2, 1}, 0.1F, 2);
  }
  EXPECT_EQ(rows_of(others, batch, {}), rows_of(rows, batch, {}));
}

}  // namespace
}  // namespace flotilla
