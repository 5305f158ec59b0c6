// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "tests/kernels/flat_state.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::flat_steps;
using test::FlatStep;
using test::read;
using test::values;

/// With padding between ranges, which is zero and stays so.
struct State : test::FlatState {
  State(const DeviceSpec& spec, std::vector<FlatRange> of, std::int64_t size)
      : FlatState(make_device(spec), std::move(of), size) {
    clear_padding();
  }
};

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

TEST(HostFlat, UpdatesAgreeWithTheReference) {
  for (const FlatStep& kind : flat_steps()) {
    for (const Decay decay : {Decay::coupled, Decay::decoupled}) {
      State cpu({.kind = "cpu", .threads = 2}, mixed_ranges, mixed_size);
      State oracle({.kind = "reference"}, mixed_ranges, mixed_size);

      test::expect_alike_after_two(kind, decay, cpu, oracle);
    }
  }
}

TEST(HostFlat, BitsDoNotDependOnTheNumberOfThreads) {
  for (const FlatStep& named : flat_steps()) {
    State one({.kind = "cpu", .threads = 1}, mixed_ranges, mixed_size);
    State three({.kind = "cpu", .threads = 3}, mixed_ranges, mixed_size);

    named.step(one, one.input(Decay::coupled));
    named.step(three, three.input(Decay::coupled));

    EXPECT_EQ(read(*one.device, one.p), read(*three.device, three.p)) << named.name;
    EXPECT_EQ(read(*one.device, one.a), read(*three.device, three.a)) << named.name;
    EXPECT_EQ(read(*one.device, one.b), read(*three.device, three.b)) << named.name;
  }
}

TEST(HostFlat, TouchesNothingOutsideTheRanges) {
  for (const FlatStep& named : flat_steps()) {
    State state({.kind = "cpu"}, {{.offset = 16, .count = 16}, {.offset = 48, .count = 7}}, 80);
    const std::vector<float> alien(16, 5.0F);  // the slice between them, and the one behind
    state.device->memory().upload(alien, state.p.span().subspan(32, 16));
    state.device->memory().upload(alien, state.p.span().subspan(64, 16));
    state.device->memory().upload(alien, state.a.span().subspan(32, 16));

    if (std::string_view(named.name) == "lamb") continue;  // copies its direction over everything
    named.step(state, state.input(Decay::coupled));

    const std::vector<float> p = read(*state.device, state.p);
    EXPECT_EQ(std::vector<float>(p.begin() + 32, p.begin() + 48), alien) << named.name;
    EXPECT_EQ(std::vector<float>(p.begin() + 64, p.end()), alien) << named.name;
    EXPECT_EQ(read(*state.device, state.a.span().subspan(32, 16)), alien) << named.name;
  }
}

TEST(HostFlat, KeepsPaddingZero) {
  for (const FlatStep& named : flat_steps()) {
    State state(
        {.kind = "cpu"},
        {{.offset = 0, .count = 10, .weight_decay = 0.1F}, {.offset = 16, .count = 3, .weight_decay = 0.1F}},
        32);

    named.step(state, state.input(Decay::decoupled));

    const std::vector<float> p = read(*state.device, state.p);
    EXPECT_EQ(std::vector<float>(p.begin() + 10, p.begin() + 16), std::vector<float>(6, 0.0F)) << named.name;
  }
}

/// One update of p = 2 with g = 3, learning rate 1/2, gradient scale 1/3 (so that the gradient used is 1).
float updated(const char* kind, Decay decay, float weight_decay,
              const std::function<void(FlatUpdates&, const UpdateInput&)>& step) {
  const auto device = make_device({.kind = kind});
  const std::vector<FlatRange> ranges = {{.offset = 0, .count = 1, .weight_decay = weight_decay}};
  Storage p = test::storage_of(*device, {2.0F});
  const Storage g = test::storage_of(*device, {4.0F});
  step(device->updates(), {.parameters = p.span(),
                           .gradients = g.span(),
                           .ranges = ranges,
                           .learning_rate = 0.5F,
                           .gradient_scale = 0.25F,
                           .decay = decay});
  return read(*device, p)[0];
}

TEST(FlatMath, UpdatesMatchHandComputedValues) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    Storage slot = device->memory().allocate(1);
    Storage square = device->memory().allocate(1);
    const auto start = [&](float velocity) {
      device->flat().fill(slot.span(), velocity);
      device->flat().fill(square.span(), 0.0F);
    };
    const auto sgd = [](FlatUpdates& updates, const UpdateInput& in) {
      updates.update(in, rules::Sgd{}, {});
    };
    const auto momentum = [&](FlatUpdates& updates, const UpdateInput& in) {
      updates.update(in, rules::Momentum{0.5F}, {slot.span()});
    };
    const auto nesterov = [&](FlatUpdates& updates, const UpdateInput& in) {
      updates.update(in, rules::Nesterov{0.5F}, {slot.span()});
    };
    const auto lars = [&](FlatUpdates& updates, const UpdateInput& in) {
      updates.update(in, rules::Lars{0.5F}, {slot.span()});
    };
    const auto adam = [&](FlatUpdates& updates, const UpdateInput& in) {
      updates.update(in, rules::Adam{0.5F, 0.75F, 1.0F}, {slot.span(), square.span()});
    };
    const auto adagrad = [&](FlatUpdates& updates, const UpdateInput& in) {
      updates.update(in, rules::Adagrad{1.0F}, {square.span()});
    };

    EXPECT_EQ(updated(kind, Decay::coupled, 0.0F, sgd), 1.5F) << kind;      // 2 − ½ · 1
    EXPECT_EQ(updated(kind, Decay::coupled, 0.25F, sgd), 1.25F) << kind;    // g = 1 + ¼ · 2
    EXPECT_EQ(updated(kind, Decay::decoupled, 0.25F, sgd), 1.25F) << kind;  // 2 (1 − ⅛) − ½
    start(2.0F);
    EXPECT_EQ(updated(kind, Decay::coupled, 0.0F, momentum), 1.0F) << kind;  // v = 1 + 1
    start(2.0F);
    EXPECT_EQ(updated(kind, Decay::coupled, 0.0F, nesterov), 1.0F) << kind;  // g + ½ v = 2
    start(2.0F);
    EXPECT_EQ(updated(kind, Decay::decoupled, 0.25F, momentum), 0.75F) << kind;  // 2 · ⅞ − 1
    start(2.0F);
    EXPECT_EQ(updated(kind, Decay::coupled, 0.0F, lars), 0.5F) << kind;  // v = 1 + ½
    start(0.0F);
    EXPECT_EQ(updated(kind, Decay::coupled, 0.0F, adam), 1.75F) << kind;  // m̂ = v̂ = 1: 2 − ½ · 1 / 2
    EXPECT_EQ(read(*device, slot)[0], 0.5F) << kind;
    EXPECT_EQ(read(*device, square)[0], 0.25F) << kind;
    start(0.0F);
    EXPECT_EQ(updated(kind, Decay::decoupled, 0.25F, adam), 1.5F) << kind;  // 2 · ⅞ − ¼
    start(0.0F);
    EXPECT_EQ(updated(kind, Decay::coupled, 0.0F, adagrad), 1.75F) << kind;  // a = 1: 2 − ½ / 2
  }
}

TEST(FlatMath, LambDirectionMatchesHandComputedValue) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    Storage slot = device->memory().allocate(1);
    Storage square = device->memory().allocate(1);
    Storage direction = device->memory().allocate(1);

    const float p = updated(kind, Decay::decoupled, 0.25F, [&](FlatUpdates& updates, const UpdateInput& in) {
      updates.update(in, rules::LambDirection{{0.5F, 0.75F, 1.0F}, direction.span()},
                     {slot.span(), square.span()});
    });

    EXPECT_EQ(p, 2.0F) << kind;                            // untouched
    EXPECT_EQ(read(*device, direction)[0], 1.0F) << kind;  // ½ + ¼ · 2
  }
}

TEST(HostFlat, SumsAgreeWithTheReferenceAndAcrossThreads) {
  for (const std::int64_t size : {0, 1, 15, 1000, 16384, 16385, 100000}) {
    State one({.kind = "cpu", .threads = 1}, {{.offset = 0, .count = size}}, size);
    State two({.kind = "cpu", .threads = 2}, {{.offset = 0, .count = size}}, size);
    State oracle({.kind = "reference"}, {{.offset = 0, .count = size}}, size);

    const double expected = oracle.device->flat().sum_of_squares(oracle.p.span());
    const double actual = one.device->flat().sum_of_squares(one.p.span());

    EXPECT_TRUE(test::within(actual, expected, 1e-12 * (1.0 + expected))) << size;
    EXPECT_EQ(actual, two.device->flat().sum_of_squares(two.p.span())) << size;
  }
}

TEST(FlatMath, NormsAreTakenOverEachRangeAlone) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const Storage x = test::storage_of(*device, {3, 4, 100, 5, 12, 0});
    const std::vector<FlatRange> ranges = {
        {.offset = 0, .count = 2}, {.offset = 3, .count = 2}, {.offset = 5, .count = 1}};
    std::vector<double> norms(3);

    device->flat().norms(x.span(), ranges, norms);

    EXPECT_EQ(norms, (std::vector<double>{5, 13, 0})) << kind;
  }
}

TEST(FlatMath, FindsEveryValueThatIsNotFinite) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind, .threads = 2});
    for (const std::size_t place : {std::size_t{0}, std::size_t{16383}, std::size_t{39999}}) {
      for (const float bad : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> x(40000, std::numeric_limits<float>::max());
        EXPECT_TRUE(device->flat().all_finite(test::storage_of(*device, x).span())) << kind;
        x[place] = bad;

        EXPECT_FALSE(device->flat().all_finite(test::storage_of(*device, x).span())) << kind << " " << place;
      }
    }
  }
}

TEST(FlatMath, ElementwiseOperationsAreExact) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind, .threads = 2});
    Storage x = device->memory().allocate(20001);
    Storage y = device->memory().allocate(20001);

    device->flat().fill(x.span(), 3.0F);
    device->flat().copy(x.span(), y.span());
    device->flat().scale(y.span(), 2.0F);
    device->flat().axpy(0.5F, x.span(), y.span());

    EXPECT_EQ(read(*device, x), std::vector<float>(20001, 3.0F)) << kind;
    EXPECT_EQ(read(*device, y), std::vector<float>(20001, 7.5F)) << kind;
  }
}

TEST(FlatMath, AddsRowsInTheirOrder) {
  for (const char* kind : {"cpu", "reference"}) {
    SCOPED_TRACE(kind);
    test::expect_rows_in_order(*make_device({.kind = kind}));
  }
}

TEST(HostFlat, RefusesArraysOfOtherSizes) {
  State state({.kind = "cpu"}, {{.offset = 0, .count = 8}}, 8);
  Storage small = state.device->memory().allocate(7);
  FlatMath& flat = state.device->flat();
  FlatUpdates& updates = state.device->updates();
  UpdateInput in = state.input(Decay::coupled);

  EXPECT_THROW(updates.update(in, rules::Momentum{}, {small.span()}), InternalError);
  EXPECT_THROW(flat.axpy(1.0F, small.span(), state.p.span()), InternalError);
  EXPECT_THROW(updates.update(in, rules::Adam{.epsilon = 0.0F}, {state.a.span(), state.b.span()}),
               InternalError);
  state.ranges[0].count = 9;
  in.ranges = state.ranges;
  EXPECT_THROW(updates.update(in, rules::Sgd{}, {}), InternalError);
}

}  // namespace
}  // namespace flotilla
