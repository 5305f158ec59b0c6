// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>

#include "kernels/trace.hpp"
#include "src/observe/trace_file.hpp"
#include "src/train/optimizer.hpp"
#include "src/train/schedule.hpp"
#include "tests/train/allocation_count.hpp"
#include "tests/train/plain_device.hpp"

namespace flotilla {
namespace {

TEST(AllocationCount, Counts) {
  const std::int64_t before = allocations_of_this_thread();

  const auto values = std::make_unique<int[]>(3);

  EXPECT_EQ(allocations_of_this_thread(), before + 1);
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
  config.kind = GetParam();
  config.weight_decay = 0.1;
  Storage parameters = device.allocate(32);
  const Storage gradients = device.allocate(32);
  const auto optimizer = make_optimizer(config, layout, device);
  const Schedule schedule({}, 64);
  const std::int64_t before = allocations_of_this_thread();

  for (int step = 0; step < 3; ++step) {
    const double clip = clip_factor(device.flat(), gradients.span(), 1.0, 1.0);
    optimizer->step(parameters.span(), gradients.span(), schedule.at({.epochs = 0.5, .total_epochs = 1.0}),
                    clip);
  }

  EXPECT_EQ(allocations_of_this_thread(), before);
}

TEST(TraceFile, RecordsSpansWithoutAllocating) {
  TraceFile trace_file("unused.json", 0, 0, 10);
  trace::record_this_thread(trace_file.thread("train"));
  const std::int64_t before = allocations_of_this_thread();

  for (int i = 0; i < 20; ++i) const trace::Span span("step");

  EXPECT_EQ(allocations_of_this_thread(), before);
  trace::record_this_thread(nullptr);
}

}  // namespace
}  // namespace flotilla
