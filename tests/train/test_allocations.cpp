// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <thread>

#include "kernels/trace.hpp"
#include "src/observe/trace_file.hpp"
#include "src/optim/optimizer.hpp"
#include "src/optim/schedule.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/train/plain_device.hpp"

namespace flotilla {
namespace {

TEST(AllocationCount, Counts) {
  const std::int64_t before = test::allocations_of_this_thread();

  const auto values = std::make_unique<int[]>(3);

  EXPECT_EQ(test::allocations_of_this_thread(), before + 1);
}

TEST(AllocationCount, CountsThoseOfOtherThreadsApart) {
  constexpr std::align_val_t alignment{128};
  const std::int64_t here = test::allocations_of_this_thread();
  const std::int64_t everywhere = test::allocations_of_all_threads();
  std::int64_t there = 0;

  std::thread([&] {
    const std::int64_t before = test::allocations_of_this_thread();
    operator delete(operator new(256, alignment), alignment);  // called by name: not optimised away
    there = test::allocations_of_this_thread() - before;
  }).join();

  EXPECT_EQ(there, 1);
  const std::int64_t made_by_starting_a_thread = test::allocations_of_this_thread() - here;
  EXPECT_EQ(test::allocations_of_all_threads() - everywhere, made_by_starting_a_thread + 1);
}

class OptimizerAllocations : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerAllocations,
                         testing::Values("sgd", "momentum", "nesterov", "adam", "adamw", "adagrad", "lars",
                                         "lamb"));

TEST_P(OptimizerAllocations, AreNoneInAStep) {
  PlainDevice device;
  ArenaLayout layout;
  layout.add("fc.weight", {5}, ParameterKind::weight);
  layout.add("fc.bias", {2}, ParameterKind::bias);
  OptimizerConfig config;
  config.kind = choice<OptimizerKind>(GetParam());
  config.weight_decay = 0.1;
  Storage parameters = device.memory().allocate(32);
  const Storage gradients = device.memory().allocate(32);
  const auto optimizer = make_optimizer(config, layout, device);
  const Schedule schedule({}, 64);
  const std::int64_t before = test::allocations_of_this_thread();

  for (int step = 0; step < 3; ++step) {
    const double clip = clip_factor(device.flat(), gradients.span(), 1.0, 1.0);
    optimizer->step(parameters.span(), gradients.span(), schedule.at({.epochs = 0.5, .total_epochs = 1.0}),
                    clip);
  }

  EXPECT_EQ(test::allocations_of_this_thread(), before);
}

TEST(TraceFile, RecordsSpansWithoutAllocating) {
  TraceFile trace_file("unused.json", 0, 0, 10);
  trace::record_this_thread(trace_file.thread("train"));
  const std::int64_t before = test::allocations_of_this_thread();

  for (int i = 0; i < 20; ++i) const trace::Span span("step");

  EXPECT_EQ(test::allocations_of_this_thread(), before);
  trace::record_this_thread(nullptr);
}

}  // namespace
}  // namespace flotilla
