// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <random>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "tests/kernels/flat_state.hpp"
#include "tests/kernels/tested_devices.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::flat_steps;
using test::FlatStep;
using test::read;
using test::values;

/// A state with padding between ranges, which is zero and stays so.
struct State : test::FlatState {
  State(std::unique_ptr<Device> on, std::vector<FlatRange> of, std::int64_t size)
      : FlatState(std::move(on), std::move(of), size) {
    clear_padding();
  }
};

class FlatMathOf : public test::EachDevice {
 protected:
  State state_of(std::vector<FlatRange> ranges, std::int64_t size) const {
    return {GetParam().make(), std::move(ranges), size};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, FlatMathOf, testing::ValuesIn(test::tested_devices_and_reference()),
                         test::name_of_device);

/// The devices that check their arguments; the reference device trusts its caller.
using CheckedFlatMath = FlatMathOf;
INSTANTIATE_TEST_SUITE_P(Devices, CheckedFlatMath, testing::ValuesIn(test::tested_devices()),
                         test::name_of_device);

/// Slices with padding, different constants, one that spans several chunks, one that is left out (at 1,024).
const std::vector<FlatRange> mixed_ranges = {
    {.offset = 0, .count = 1000, .weight_decay = 0.1F},
    {.offset = 1008, .count = 10, .weight_decay = 0.1F},
    {.offset = 1040, .count = 1, .weight_decay = 0.1F, .rate_factor = 0.5F},
    {.offset = 1056, .count = 50000, .rate_factor = 2.0F},
    {.offset = 51056, .count = 17, .rate_factor = 2.0F},
    {.offset = 51088, .count = 300, .weight_decay = 0.2F, .rate_factor = 0.0F}};
constexpr std::int64_t mixed_size = 51392;

// An activation may hold halves, two in the room of a float.
static_assert(
    std::is_invocable_v<decltype(&FlatMath::axpy), FlatMath&, float, DeviceSpan<float>, DeviceSpan<float>>);
static_assert(
    !std::is_invocable_v<decltype(&FlatMath::axpy), FlatMath&, float, TensorSpan, DeviceSpan<float>>);
static_assert(
    !std::is_invocable_v<decltype(&FlatMath::axpy), FlatMath&, float, DeviceSpan<float>, TensorSpan>);
static_assert(!std::is_convertible_v<TensorSpan, DeviceSpan<float>>);
static_assert(!std::is_convertible_v<GivenTensorSpan, DeviceSpan<const float>>);

TEST_P(FlatMathOf, UpdatesAgreeWithTheReference) {
  for (const FlatStep& kind : flat_steps()) {
    for (const Decay decay : {Decay::coupled, Decay::decoupled}) {
      State state = state_of(mixed_ranges, mixed_size);
      State oracle(make_device({.kind = "reference"}), mixed_ranges, mixed_size);

      test::expect_alike_after_two(kind, decay, state, oracle);
    }
  }
}

TEST_P(FlatMathOf, FollowsRangesThatChangeBetweenSteps) {
  State state = state_of(mixed_ranges, mixed_size);
  State oracle(make_device({.kind = "reference"}), mixed_ranges, mixed_size);
  for (const float factor : {1.0F, 0.25F, 3.0F}) {
    for (State* const each : {&state, &oracle}) {
      each->ranges[3].rate_factor = factor;

      each->updates().update(each->input(Decay::coupled), rules::Sgd{}, {});
      each->flat().norms(each->p.span(), {}, {});
    }
  }

  EXPECT_TRUE(test::within(
      test::largest_difference(read(*state.device, state.p), read(*oracle.device, oracle.p)), 0.0, 2e-6));
}

TEST_P(FlatMathOf, GivesTheSameBitsInAnyOrder) {
  const auto after_a_step = [](const FlatStep& kind, std::unique_ptr<Device> on) {
    State state(std::move(on), mixed_ranges, mixed_size);
    std::vector<double> norms(mixed_ranges.size());
    kind.step(state, state.input(Decay::coupled));
    state.flat().norms(state.p.span(), mixed_ranges, norms);
    return std::tuple(read(*state.device, state.p), read(*state.device, state.a),
                      read(*state.device, state.b), norms);
  };
  for (const FlatStep& kind : flat_steps()) {
    const auto first = after_a_step(kind, GetParam().make());
    for (const test::MakeDevice& make : GetParam().alike)
      EXPECT_TRUE(after_a_step(kind, make()) == first) << kind.name;
  }
}

TEST_P(FlatMathOf, TouchesNothingOutsideTheRanges) {
  for (const FlatStep& kind : flat_steps()) {
    if (std::string_view(kind.name) == "lamb") continue;  // copies its direction over everything
    State state = state_of({{.offset = 16, .count = 16}, {.offset = 48, .count = 7}}, 80);
    const std::vector<float> alien(16, 5.0F);  // for the gap between the ranges, and the one after them
    state.device->memory().upload(alien, state.p.span().subspan(32, 16));
    state.device->memory().upload(alien, state.p.span().subspan(64, 16));
    state.device->memory().upload(alien, state.a.span().subspan(32, 16));

    kind.step(state, state.input(Decay::coupled));

    EXPECT_EQ(read(*state.device, state.p.span().subspan(32, 16)), alien) << kind.name;
    EXPECT_EQ(read(*state.device, state.p.span().subspan(64, 16)), alien) << kind.name;
    EXPECT_EQ(read(*state.device, state.a.span().subspan(32, 16)), alien) << kind.name;
  }
}

TEST_P(FlatMathOf, KeepsPaddingZero) {
  for (const FlatStep& kind : flat_steps()) {
    State state = state_of(
        {{.offset = 0, .count = 10, .weight_decay = 0.1F}, {.offset = 16, .count = 3, .weight_decay = 0.1F}},
        32);

    kind.step(state, state.input(Decay::decoupled));

    EXPECT_EQ(read(*state.device, state.p.span().subspan(10, 6)), std::vector<float>(6, 0.0F)) << kind.name;
  }
}

/// A way to update p = 2 once with g = 1 (4, scaled by ¼) and the learning rate ½.
struct UpdateByHand {
  const char* name;
  UpdateRule rule;
  float velocity;  ///< First slot before the step; the second is 0. Adagrad has only the second.
  float weight_decay;
  Decay decay;
  float expected;
};

TEST_P(FlatMathOf, UpdatesMatchHandComputedValues) {
  const rules::Adam adam{0.5F, 0.75F, 1.0F};
  const std::vector<UpdateByHand> updates = {
      {"2 − ½ · 1", rules::Sgd{}, 0.0F, 0.0F, Decay::coupled, 1.5F},
      {"g = 1 + ¼ · 2", rules::Sgd{}, 0.0F, 0.25F, Decay::coupled, 1.25F},
      {"2 (1 − ⅛) − ½", rules::Sgd{}, 0.0F, 0.25F, Decay::decoupled, 1.25F},
      {"v = 1 + 1", rules::Momentum{0.5F}, 2.0F, 0.0F, Decay::coupled, 1.0F},
      {"g + ½ v = 2", rules::Nesterov{0.5F}, 2.0F, 0.0F, Decay::coupled, 1.0F},
      {"2 · ⅞ − 1", rules::Momentum{0.5F}, 2.0F, 0.25F, Decay::decoupled, 0.75F},
      {"v = 1 + ½", rules::Lars{0.5F}, 2.0F, 0.0F, Decay::coupled, 0.5F},
      {"m̂ = v̂ = 1: 2 − ½ · 1 / 2", adam, 0.0F, 0.0F, Decay::coupled, 1.75F},
      {"2 · ⅞ − ¼", adam, 0.0F, 0.25F, Decay::decoupled, 1.5F},
      {"a = 1: 2 − ½ / 2", rules::Adagrad{1.0F}, 0.0F, 0.0F, Decay::coupled, 1.75F}};
  for (const UpdateByHand& by_hand : updates) {
    SCOPED_TRACE(by_hand.name);
    const std::vector<FlatRange> ranges = {{.offset = 0, .count = 1, .weight_decay = by_hand.weight_decay}};
    Storage p = test::storage_of(*device, {2.0F});
    const Storage g = test::storage_of(*device, {4.0F});
    Storage slot = test::storage_of(*device, {by_hand.velocity});
    Storage square = test::storage_of(*device, {0.0F});
    const bool squares_only = std::holds_alternative<rules::Adagrad>(by_hand.rule);

    device->updates().update({.parameters = p.span(),
                              .gradients = g.span(),
                              .ranges = ranges,
                              .learning_rate = 0.5F,
                              .gradient_scale = 0.25F,
                              .decay = by_hand.decay},
                             by_hand.rule, {squares_only ? square.span() : slot.span(), square.span()});

    EXPECT_EQ(read(*device, p)[0], by_hand.expected);
    if (!std::holds_alternative<rules::Adam>(by_hand.rule)) continue;
    EXPECT_EQ(read(*device, slot)[0], 0.5F);
    EXPECT_EQ(read(*device, square)[0], 0.25F);
  }
}

TEST_P(FlatMathOf, LambDirectionMatchesHandComputedValue) {
  const std::vector<FlatRange> ranges = {{.offset = 0, .count = 1, .weight_decay = 0.25F}};
  Storage p = test::storage_of(*device, {2.0F});
  const Storage g = test::storage_of(*device, {4.0F});
  Storage slot = device->memory().allocate(1);
  Storage square = device->memory().allocate(1);
  Storage direction = device->memory().allocate(1);

  device->updates().update({.parameters = p.span(),
                            .gradients = g.span(),
                            .ranges = ranges,
                            .learning_rate = 0.5F,
                            .gradient_scale = 0.25F,
                            .decay = Decay::decoupled},
                           rules::LambDirection{{0.5F, 0.75F, 1.0F}, direction.span()},
                           {slot.span(), square.span()});

  EXPECT_EQ(read(*device, p)[0], 2.0F);          // untouched
  EXPECT_EQ(read(*device, direction)[0], 1.0F);  // ½ + ¼ · 2
}

TEST_P(FlatMathOf, SumsAgreeWithTheReference) {
  const auto oracle = make_device({.kind = "reference"});
  for (const std::int64_t size : {0, 1, 15, 1000, 16384, 16385, 100000}) {
    const auto sum_on = [&](Device& on) {
      return on.flat().sum_of_squares(test::storage_of(on, values(size, 1)).span());
    };

    const double expected = sum_on(*oracle);

    EXPECT_TRUE(test::within(sum_on(*device), expected, 1e-12 * (1.0 + expected))) << size;
    expect_same_bits(sum_on);
  }
}

TEST_P(FlatMathOf, NormsAreTakenOverEachRangeAlone) {
  // A range of several chunks, an empty one, and neighbours of others.
  std::vector<float> inputs(40000, 0.0F);
  inputs[0] = 3.0F;
  inputs[39990] = 4.0F;
  const std::vector<float> end = {100, 5, 12, 0, 7};
  std::ranges::copy(end, inputs.end() - std::ssize(end));
  const Storage x = test::storage_of(*device, inputs);
  const std::vector<FlatRange> ranges = {{.offset = 0, .count = 39995},
                                         {.offset = 5, .count = 0},
                                         {.offset = 39996, .count = 2},
                                         {.offset = 39998, .count = 1},
                                         {.offset = 39999, .count = 1}};
  std::vector<double> norms(ranges.size());

  device->flat().norms(x.span(), ranges, norms);

  EXPECT_EQ(norms, (std::vector<double>{5, 0, 13, 0, 7}));
}

TEST_P(FlatMathOf, FindsEveryValueThatIsNotFinite) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const std::size_t place : {std::size_t{0}, std::size_t{16383}, std::size_t{39999}}) {
    for (const float bad : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(40000, std::numeric_limits<float>::max());
      EXPECT_TRUE(device->flat().all_finite(test::storage_of(*device, x).span()));
      x[place] = bad;

      EXPECT_FALSE(device->flat().all_finite(test::storage_of(*device, x).span())) << place;
    }
  }
}

TEST_P(FlatMathOf, ElementwiseOperationsAreExact) {
  Storage x = device->memory().allocate(20001);
  Storage y = device->memory().allocate(20001);

  device->flat().fill(x.span(), 3.0F);
  device->flat().copy(x.span(), y.span());
  device->flat().scale(y.span(), 2.0F);
  device->flat().axpy(0.5F, x.span(), y.span());

  EXPECT_EQ(read(*device, x), std::vector<float>(20001, 3.0F));
  EXPECT_EQ(read(*device, y), std::vector<float>(20001, 7.5F));
}

/// Doubles in the memory of a device.
struct Doubles {
  Doubles(Device& device, std::size_t count) : storage(device.memory().allocate(2 * count)) {}
  DeviceSpan<double> span() {
    return {reinterpret_cast<double*>(storage.span().address()), storage.size() / 2};
  }
  std::vector<double> read(Device& device) const {
    std::vector<double> values(storage.size() / 2);
    device.memory().download(storage.span(), {reinterpret_cast<float*>(values.data()), storage.size()});
    return values;
  }
  void write(Device& device, const std::vector<double>& values) {
    device.memory().upload({reinterpret_cast<const float*>(values.data()), storage.size()}, storage.span());
  }
  Storage storage;
};

TEST_P(FlatMathOf, PacksAndUnpacksWhatWorkersAddUp) {
  FlatMath& flat = device->flat();
  const Storage first = test::storage_of(*device, {5.0F, -1.0F, 16777216.0F});
  const Storage second = test::storage_of(*device, {2.0F, 0.25F, 1.0F});
  const Storage shifts = test::storage_of(*device, {3.0F, 1.0F, 0.0F});
  Doubles sums(*device, 6);

  flat.pack_sums(first.span(), second.span(), {}, sums.span());
  EXPECT_EQ(sums.read(*device), (std::vector<double>{5.0, -1.0, 0x1p24, 2.0, 0.25, 1.0}));
  flat.pack_sums(first.span(), second.span(), shifts.span(), sums.span());
  EXPECT_EQ(sums.read(*device), (std::vector<double>{2.0, -2.0, 0x1p24, 6.0, 4.25, 0x1p48 + 1.0}));

  Storage mean = device->memory().allocate(3);
  Storage variance = device->memory().allocate(3);
  sums.write(*device, {4.0, 6.0, 0x1p30 + 64.0, 16.0, 16.0, 0.0});
  flat.unpack_sums(sums.span(), {}, 2, mean.span(), variance.span());
  EXPECT_EQ(read(*device, mean), (std::vector<float>{4.0F, 6.0F, 0x1p30F}));
  EXPECT_EQ(read(*device, variance), (std::vector<float>{16.0F, 16.0F, 0.0F}));
  flat.unpack_sums(sums.span(), shifts.span(), 2, mean.span(), variance.span());
  EXPECT_EQ(read(*device, mean), (std::vector<float>{5.0F, 4.0F, 0x1p29F}));
  EXPECT_EQ(read(*device, variance), (std::vector<float>{4.0F, 0.0F, 0.0F})) << "never below zero";

  EXPECT_THROW(flat.pack_sums(first.span(), second.span(), {}, sums.span().subspan(0, 5)), InternalError);
  EXPECT_THROW(flat.unpack_sums(sums.span(), {}, 0, mean.span(), variance.span()), InternalError);
}

/// Moments of `batches` batches, of channels around `mean` with σ = 1, and what all of them together have.
struct Batches {
  Batches(int batches, float mean) : exact_mean(channels), exact_variance(channels) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (int batch = 0; batch < batches; ++batch) {
      for (std::size_t c = 0; c < channels; ++c) {
        means.push_back(mean + normal(random) / 8.0F);
        variances.push_back(1.0F + normal(random) / 8.0F);
        exact_mean[c] += static_cast<long double>(means.back()) / batches;
      }
    }
    for (std::size_t i = 0; i < means.size(); ++i) {
      const long double off = static_cast<long double>(means[i]) - exact_mean[i % channels];
      exact_variance[i % channels] += (static_cast<long double>(variances[i]) + off * off) / batches;
    }
  }
  static constexpr std::size_t channels = 40;
  std::vector<float> means;
  std::vector<float> variances;
  std::vector<long double> exact_mean;
  std::vector<long double> exact_variance;
};

/// The sums of all batches, each packed on the device, in the order of the batches.
std::vector<double> packed_sums(Device& device, const Batches& batches, const Storage& shifts) {
  std::vector<double> sums(2 * Batches::channels);
  Doubles packed(device, sums.size());
  const auto part = [&](const std::vector<float>& of, std::size_t from) {
    const auto begin = of.begin() + static_cast<std::ptrdiff_t>(from);
    return test::storage_of(device, {begin, begin + Batches::channels});
  };
  for (std::size_t from = 0; from < batches.means.size(); from += Batches::channels) {
    const Storage first = part(batches.means, from);
    const Storage second = part(batches.variances, from);
    device.flat().pack_sums(first.span(), second.span(), shifts.span(), packed.span());
    const std::vector<double> one = packed.read(device);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += one[i];
  }
  return sums;
}

// With a shift near the means the result is the exact one, rounded once. With a bad one, zero, the variance
// loses what double's rounding of mean² is, once for each batch that is added: at a mean of 10⁴ σ less than a
// float's rounding.
TEST_P(FlatMathOf, MomentsOfBatchesDoNotCancel) {
  for (const int batches : {2, 3, 16, 64}) {
    for (const float mean : {0.0F, 1e4F, 1e6F}) {
      for (const float shift : {mean, 0.0F}) {
        const Batches of(batches, mean);
        const Storage shifts = test::storage_of(
            *device, std::vector<float>(Batches::channels, shift == 0.0F ? 0.0F : shift - 3));
        Doubles sums(*device, 2 * Batches::channels);
        sums.write(*device, packed_sums(*device, of, shifts));
        Storage means = device->memory().allocate(Batches::channels);
        Storage variances = device->memory().allocate(Batches::channels);
        device->flat().unpack_sums(sums.span(), shifts.span(), batches, means.span(), variances.span());

        const double far = double{mean} - double{shift} + 4.0;  // a = sums / batches is less
        const double lost = (batches + 3) * 0x1p-53 * far * far;
        for (std::size_t c = 0; c < Batches::channels; ++c) {
          const auto exact = static_cast<double>(of.exact_variance[c]);
          EXPECT_TRUE(test::within(read(*device, variances)[c], exact, 2.0 * (0x1p-24 * exact + lost)))
              << batches << " batches around " << mean << ", shift " << shift;
          const auto middle = static_cast<double>(of.exact_mean[c]);
          EXPECT_TRUE(test::within(read(*device, means)[c], middle, 0x1p-23 * std::abs(middle) + 0x1p-40));
        }
      }
    }
  }
}

TEST_P(CheckedFlatMath, RefusesArraysOfOtherSizes) {
  State state = state_of({{.offset = 0, .count = 8}}, 8);
  Storage small = state.device->memory().allocate(7);
  UpdateInput in = state.input(Decay::coupled);

  EXPECT_THROW(state.updates().update(in, rules::Momentum{}, {small.span()}), InternalError);
  EXPECT_THROW(state.flat().axpy(1.0F, small.span(), state.p.span()), InternalError);
  EXPECT_THROW(state.updates().update(in, rules::Adam{.epsilon = 0.0F}, {state.a.span(), state.b.span()}),
               InternalError);
  state.ranges[0].count = 9;
  in.ranges = state.ranges;
  EXPECT_THROW(state.updates().update(in, rules::Sgd{}, {}), InternalError);
}

}  // namespace
}  // namespace flotilla
