// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "kernels/error.hpp"
#include "src/optim/optimizer.hpp"
#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"

namespace flotilla {
namespace {

class LayerwiseUpdates : public test::OnGpu {};

/// Tensors of several chunks, of one and of less; one is zero, one frozen, one without weight decay.
ArenaLayout layout() {
  ArenaLayout made;
  made.add("first.weight", {50, 1000}, ParameterKind::weight);
  made.add("first.bias", {50}, ParameterKind::bias);
  made.add("zero.weight", {30}, ParameterKind::weight);
  made.add("frozen.weight", {17}, ParameterKind::weight);
  made.add("slow.weight", {123, 133}, ParameterKind::weight);
  return made;
}

OptimizerConfig config(OptimizerKind kind) {
  return {.kind = kind,
          .epsilon = 1e-6,
          .weight_decay = 0.01,
          .no_decay = {NoDecay::biases},
          .lars_coefficient = 0.02,
          .frozen = {"frozen.*"},
          .rates = {"slow.* 0.25"}};
}

struct Training {
  std::vector<float> parameters;
  fake::Done last_step;
};

/// Six steps whose gradients are on the device already.
Training trained(OptimizerKind kind, bool graphs, bool norms_through_host) {
  const auto device = test::gpu({.graphs = graphs});
  const ArenaLayout tensors = layout();
  const auto optimizer = make_optimizer(config(kind), tensors, *device);
  if (norms_through_host) optimizer->complete_norms_with([](std::span<double>, std::span<double>) {});
  std::vector<float> initial(static_cast<std::size_t>(tensors.size()));
  std::vector<float> slopes(initial.size());
  for (std::size_t i = 0; i < tensors.slices().size(); ++i) {
    const Slice& slice = tensors[i];
    const auto at = static_cast<std::ptrdiff_t>(slice.offset);
    if (slice.name != "zero.weight") std::ranges::copy(test::values(slice.size, i), initial.begin() + at);
    if (slice.name != "frozen.weight")
      std::ranges::copy(test::values(slice.size, 10 + i), slopes.begin() + at);
  }
  Storage parameters = test::storage_of(*device, initial);
  Storage gradients = test::storage_of(*device, slopes);

  Training result;
  for (int step = 0; step < 6; ++step) {
    const fake::Done before = fake::done();
    for (int i = 0; i < 3; ++i) device->flat().scale(gradients.span(), 1.1F);
    optimizer->step(parameters.span(), gradients.span(), 0.1 / (step + 1), -0.5 / (step + 2));
    device->queue().submit();
    result.last_step = {.alone = fake::done().alone - before.alone,
                        .in_graphs = fake::done().in_graphs - before.in_graphs,
                        .graphs = fake::done().graphs - before.graphs,
                        .waits = fake::done().waits - before.waits};
  }
  result.parameters = test::read(*device, parameters);
  return result;
}

TEST_F(LayerwiseUpdates, LeaveTheBitsOfNormsThatTheHostReads) {
  for (const OptimizerKind kind : {OptimizerKind::lars, OptimizerKind::lamb}) {
    const Training through_host = trained(kind, false, true);
    for (const bool graphs : {false, true})
      EXPECT_EQ(trained(kind, graphs, false).parameters, through_host.parameters)
          << cat(kind, ", graphs ", graphs);
    EXPECT_EQ(trained(kind, true, true).parameters, through_host.parameters) << cat(kind);
    EXPECT_GT(through_host.last_step.waits, 0) << cat(kind);
  }
}

TEST_F(LayerwiseUpdates, AreSkippedInStepsThatOverflow) {
  constexpr double summed = 4.0;
  for (const OptimizerKind kind : {OptimizerKind::lars, OptimizerKind::lamb}) {
    const auto device = test::gpu();
    const ArenaLayout tensors = layout();
    const auto guarded = make_optimizer(config(kind), tensors, *device);
    const auto judged = make_optimizer(config(kind), tensors, *device);
    const auto guard = device->overflow_guard({.rule = {.dynamic = true, .backoff = 0.5F, .backoff_every = 1},
                                               .loss_divisor = 8.0F,
                                               .beta1 = static_cast<float>(config(kind).beta1),
                                               .beta2 = static_cast<float>(config(kind).beta2)});
    ScaleState state{.scale = 64.0F};
    guard->begin(state, 0);
    const std::vector<float> initial = test::values(tensors.size(), 1);
    Storage by_guard = test::storage_of(*device, initial);
    Storage by_host = test::storage_of(*device, initial);
    Storage report = device->memory().allocate(report_floats);
    for (int step = 0; step < 6; ++step) {
      const bool overflows = step == 1 || step == 4;
      std::vector<float> values = test::values(tensors.size(), 20 + static_cast<std::uint64_t>(step));
      if (overflows) values[100] = std::numeric_limits<float>::infinity();
      Storage gradients = test::storage_of(*device, values);

      guarded->step(by_guard.span(), gradients.span(),
                    guard->check(gradients.span(), 0.1F, summed, report.span()));
      if (overflows)
        state.scale *= 0.5F;
      else
        judged->step(by_host.span(), gradients.span(), 0.1, 1.0 / (summed * double{state.scale}));

      EXPECT_EQ(test::read(*device, by_guard), test::read(*device, by_host)) << cat(kind, " in step ", step);
    }
  }
}

TEST_F(LayerwiseUpdates, AreHandedOutWithoutWaiting) {
  for (const OptimizerKind kind : {OptimizerKind::lars, OptimizerKind::lamb})
    EXPECT_EQ(trained(kind, false, false).last_step.waits, 0) << cat(kind);
}

TEST_F(LayerwiseUpdates, AreLaunchedInGraphs) {
  for (const OptimizerKind kind : {OptimizerKind::lars, OptimizerKind::lamb}) {
    const Training alone = trained(kind, false, false);
    const Training in_graph = trained(kind, true, false);
    EXPECT_EQ(in_graph.last_step.graphs, 1) << cat(kind);
    EXPECT_EQ(in_graph.last_step.alone, 0) << cat(kind);
    EXPECT_EQ(in_graph.last_step.in_graphs, alone.last_step.alone) << cat(kind);
  }
}

}  // namespace
}  // namespace flotilla
