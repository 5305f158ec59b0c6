// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/error.hpp"
#include "tests/kernels/flat_state.hpp"
#include "tests/kernels/loops_device.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read;
using test::values;
using State = test::FlatState;

/// Different constants, one range of many chunks, one that is left out (at 1,024).
const std::vector<FlatRange> mixed_ranges = {
    {.offset = 0, .count = 1008, .weight_decay = 0.1F},
    {.offset = 1008, .count = 16, .weight_decay = 0.1F},
    {.offset = 1040, .count = 1, .weight_decay = 0.1F, .rate_factor = 0.5F},
    {.offset = 1056, .count = 50000, .rate_factor = 2.0F},
    {.offset = 51088, .count = 300, .weight_decay = 0.2F, .rate_factor = 0.0F}};
constexpr std::int64_t mixed_size = 51392;

TEST(LoopsFlat, UpdatesAgreeWithTheReference) {
  for (const test::FlatStep& kind : test::flat_steps()) {
    for (const Decay decay : {Decay::coupled, Decay::decoupled}) {
      State loops(test::loops_device(), mixed_ranges, mixed_size);
      State oracle(make_device({.kind = "reference"}), mixed_ranges, mixed_size);

      test::expect_alike_after_two(kind, decay, loops, oracle);
    }
  }
}

TEST(LoopsFlat, FollowsRangesThatChangeBetweenSteps) {
  State loops(test::loops_device(), mixed_ranges, mixed_size);
  State oracle(make_device({.kind = "reference"}), mixed_ranges, mixed_size);
  for (const float factor : {1.0F, 0.25F, 3.0F}) {
    for (State* const state : {&loops, &oracle}) {
      state->ranges[3].rate_factor = factor;

      state->updates().update(state->input(Decay::coupled), rules::Sgd{}, {});
      state->flat().norms(state->p.span(), {}, {});
    }
  }

  EXPECT_TRUE(test::within(
      test::largest_difference(read(*loops.device, loops.p), read(*oracle.device, oracle.p)), 0.0, 2e-6));
}

TEST(LoopsFlat, SumsAgreeWithTheReference) {
  for (const std::int64_t size : {0, 1, 15, 1000, 16384, 16385, 100000}) {
    const auto loops = test::loops_device();
    const auto oracle = make_device({.kind = "reference"});

    const double actual = loops->flat().sum_of_squares(test::storage_of(*loops, values(size, 1)).span());
    const double expected = oracle->flat().sum_of_squares(test::storage_of(*oracle, values(size, 1)).span());

    EXPECT_TRUE(test::within(actual, expected, 1e-12 * (1.0 + expected))) << size;
  }
}

TEST(LoopsFlat, GivesTheSameBitsInAnyOrderOfLanes) {
  test::expect_equal_in_any_order([&] {
    State state(test::loops_device(), mixed_ranges, mixed_size);
    std::vector<double> norms(mixed_ranges.size());
    state.updates().update(state.input(Decay::coupled), rules::Adam{}, {state.a.span(), state.b.span()});
    state.flat().norms(state.p.span(), mixed_ranges, norms);
    return std::pair(read(*state.device, state.p), norms);
  });
}

TEST(LoopsFlat, NormsAreTakenOverEachRangeAlone) {
  const auto device = test::loops_device();
  std::vector<float> inputs(40000, 0.0F);
  inputs[0] = 3.0F;
  inputs[39998] = 4.0F;
  inputs[39999] = 7.0F;
  const Storage x = test::storage_of(*device, inputs);
  const std::vector<FlatRange> ranges = {
      {.offset = 0, .count = 39999}, {.offset = 5, .count = 0}, {.offset = 39999, .count = 1}};
  std::vector<double> norms(3);

  device->flat().norms(x.span(), ranges, norms);

  EXPECT_EQ(norms, (std::vector<double>{5, 0, 7}));
}

TEST(LoopsFlat, FindsEveryValueThatIsNotFinite) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const auto device = test::loops_device();
  for (const std::size_t place : {std::size_t{0}, std::size_t{16383}, std::size_t{39999}}) {
    for (const float bad : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(40000, std::numeric_limits<float>::max());
      EXPECT_TRUE(device->flat().all_finite(test::storage_of(*device, x).span()));
      x[place] = bad;

      EXPECT_FALSE(device->flat().all_finite(test::storage_of(*device, x).span())) << place;
    }
  }
}

TEST(LoopsFlat, ElementwiseOperationsAreExact) {
  const auto device = test::loops_device();
  Storage x = device->memory().allocate(20001);
  Storage y = device->memory().allocate(20001);

  device->flat().fill(x.span(), 3.0F);
  device->flat().copy(x.span(), y.span());
  device->flat().scale(y.span(), 2.0F);
  device->flat().axpy(0.5F, x.span(), y.span());

  EXPECT_EQ(read(*device, x), std::vector<float>(20001, 3.0F));
  EXPECT_EQ(read(*device, y), std::vector<float>(20001, 7.5F));
}

TEST(LoopsFlat, AddsRowsInTheirOrder) {
  test::expect_rows_in_order(*test::loops_device());
}

TEST(LoopsFlat, RefusesArraysOfOtherSizes) {
  State state(test::loops_device(), {{.offset = 0, .count = 8}}, 8);
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
