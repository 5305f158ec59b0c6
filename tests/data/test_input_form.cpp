// SPDX-License-Identifier: Apache-2.0
#include "src/data/input_form.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "tests/data/arrays/opened_arrays.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr NumberType u8{};
constexpr NumberType f32{NumberType::Kind::f32};

class InputForm : public testing::Test {
 protected:
  /// The form of images 2x3 of a type, with the keys of `data`.
  std::string form(NumberType type) {
    test::save_hdf5(folder.path("a.h5"), {test::counted("images", type, {2, 2, 3}), test::labels_of(2)});
    return input_form(data, *test::open(data, folder.path("a.h5")));
  }
  static std::string told(const std::string& trained, const std::string& now) {
    std::string note;
    const std::string error = test::error_of([&] { note = compare_inputs(trained, now, "data.validation"); });
    return note + error;
  }

  test::TemporaryFolder folder;
  DataConfig data = test::config(DataKind::hdf5);
};

TEST_F(InputForm, SaysWhatTheNetworkSeesOfAStoredNumber) {
  EXPECT_EQ(form(u8), "uint8 1x2x3, (x - 127.5) / 127.5") << "data.mean and data.std";
  EXPECT_EQ(form(f32), "float32 1x2x3, x");
  data.input_mean = {0.1307};
  data.input_std = {0.3081};
  EXPECT_EQ(form(u8), "uint8 1x2x3, (x - 33.3285) / 78.5655");
  EXPECT_EQ(form(f32), "float32 1x2x3, (x - 0.1307) / 0.3081");
  EXPECT_EQ(form({.kind = NumberType::Kind::i16, .big_endian = true}),
            "big-endian int16 1x2x3, (x - 0.1307) / 0.3081");
  EXPECT_EQ(shape_in("big-endian int16 1x2x3, (x - 0.1307) / 0.3081"), (Shape{1, 2, 3}));
  data.input_mean = {0};
  data.input_std = {1};
  EXPECT_EQ(form(u8), "uint8 1x2x3, x / 255");
  data.target_mean = {3, -1};
  EXPECT_EQ(target_form(data), "(t - [3, -1])");
  data.input_mean = std::vector<double>(1000, 0.25);
  EXPECT_EQ(scaling_of(data, false).mean.size(), 1000U);
}

TEST_F(InputForm, OfManyValuesIsShortAndTellsThemApart) {
  for (int k = 0; k < 5000; ++k) data.target_mean.push_back(k);
  const std::string before = target_form(data);
  EXPECT_LT(before.size(), 60U) << before;
  data.target_mean[77] = 1;
  EXPECT_NE(target_form(data), before);
  EXPECT_NO_THROW(compare_targets(before, before));
  EXPECT_THROW(compare_targets(before, target_form(data)), UserError);
}

TEST_F(InputForm, OfOtherNumbersIsRefusedUnlessTheyAreScaledAlike) {
  data.input_mean = {0.1307};
  data.input_std = {0.3081};
  const std::string bytes = form(u8);
  const std::string floats = form(f32);
  EXPECT_EQ(told(bytes, bytes), "");
  EXPECT_EQ(told(bytes, floats),
            "the model sees (x - 33.3285) / 78.5655 of a number x of uint8, and of those of data.validation, "
            "float32, it would see (x - 0.1307) / 0.3081: convert them to uint8, or give data.input_mean and "
            "data.input_std these values");
  EXPECT_TRUE(test::mentions(told(floats, bytes), {"convert them to float32"}));
  data.input_mean = {33.3285};  // what the message says
  data.input_std = {78.5655};
  EXPECT_EQ(told(bytes, form(f32)),
            "the numbers of data.validation are float32, those of training are uint8: the model sees (x - "
            "33.3285) / 78.5655 of both");
  data.input_std = {78.5};
  EXPECT_TRUE(test::mentions(told(floats, form(f32)), {"scale them by the keys of the model's deck"}));
}

/// What the remedy promises: the same digits as bytes and as floats are one to the network, to rounding.
TEST_F(InputForm, ThatIsEqualGivesTheSameValues) {
  data.input_mean = {0.1307};
  data.input_std = {0.3081};
  test::save_hdf5(folder.path("a.h5"), {test::counted("images", u8, {2, 2, 3}), test::labels_of(2)});
  const auto bytes = test::open(data, folder.path("a.h5"));
  data.input_mean = {33.3285};
  data.input_std = {78.5655};
  std::vector<double> numbers;
  for (int k = 0; k < 12; ++k) numbers.push_back(test::counted_value(u8, k));
  test::save_hdf5(folder.path("b.h5"),
                  {test::of_values("images", f32, {2, 2, 3}, numbers), test::labels_of(2)});
  const auto floats = test::open(data, folder.path("b.h5"));
  // Each rounds 3 times numbers of up to 255 / 78 in float.
  for (const std::int64_t i : {0, 1})
    EXPECT_TRUE(test::within(test::values_of(*bytes, i), test::values_of(*floats, i),
                             3 * 3.3 * test::float_rounding));
}

TEST_F(InputForm, OfRandomAndClickDataNamesWhatMakesThem) {
  DataConfig random = test::config(DataKind::random);
  random.shape = {4, 5};
  const auto made_up = open_dataset(random, {.given = true, .images = {}, .labels = {}, .samples = 3}, 2, 1);
  EXPECT_EQ(input_form(random, *made_up), "float32 4x5, x");
  DataConfig clicks = random;  // of which the keys alone matter
  clicks.kind = DataKind::criteo;
  EXPECT_EQ(input_form(clicks, *made_up), "float32 4x5, log of x, ids by data.hash_buckets = 1000001");
}

}  // namespace
}  // namespace flotilla
