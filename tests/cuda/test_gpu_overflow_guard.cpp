// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "src/optim/loss_scale.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"

namespace flotilla {
namespace {

class Judge : public test::OnGpu {};

LossScaleConfig restless() {
  return {.initial = 1024.0, .growth = 2.0, .growth_every = 3, .backoff = 0.5, .backoff_every = 2};
}

/// Whether the i-th step overflows: runs of both, some to the least scale and some to a high one.
bool overflows(int step) {
  return (step > 20 && step < 50) || step % 7 == 3 || step % 11 < 2;
}

TEST_F(Judge, FollowsAsTheLossScaleDoesAndUpdatesOnlyWhatIsTaken) {
  for (const bool graphs : {false, true}) {
    const auto device = test::gpu({.graphs = graphs});
    FlatUpdates& updates = device->updates();
    LossScale scale(restless());
    const auto guard =
        device->overflow_guard({.rule = scale.rule(), .loss_divisor = 8.0F, .beta1 = 0.9F, .beta2 = 0.99F});
    guard->begin(scale.now(), 0);
    constexpr std::size_t size = 40;
    const std::array<FlatRange, 1> ranges = {{{.offset = 0, .count = size, .weight_decay = 0.01F}}};
    std::vector<float> initial = test::exact_values(size, 1);
    // One by the guard, one reported by the host.
    std::array<Storage, 2> parameters = {test::storage_of(*device, initial),
                                         test::storage_of(*device, initial)};
    std::array<Storage, 2> first = {device->memory().allocate(size), device->memory().allocate(size)};
    std::array<Storage, 2> second = {device->memory().allocate(size), device->memory().allocate(size)};
    Storage backward = device->memory().allocate(1);
    Storage report = device->memory().allocate(report_floats);
    std::int64_t taken = 0;
    float lowest = scale.scale();

    for (int step = 0; step < 100; ++step) {
      const float rate = 0.1F / static_cast<float>(step + 1);
      std::vector<float> values = test::exact_values(size, static_cast<std::uint64_t>(step));
      if (overflows(step))
        values[static_cast<std::size_t>(step) % size] = std::numeric_limits<float>::infinity();
      Storage gradients = test::storage_of(*device, values);
      const double gradient_scale = 1.0 / (4.0 * double{scale.scale()});

      const UpdateNumbers* const numbers = guard->check(gradients.span(), rate, 4.0, report.span());
      UpdateInput in{.parameters = parameters[0].span(),
                     .gradients = gradients.span(),
                     .ranges = ranges,
                     .step = step + 1,
                     .numbers = numbers};
      updates.update(in, rules::Adam{0.9F, 0.99F, 1e-6F}, {first[0].span(), second[0].span()});
      device->queue().submit();
      if (!overflows(step)) {
        in = {.parameters = parameters[1].span(),
              .gradients = gradients.span(),
              .ranges = ranges,
              .learning_rate = rate,
              .gradient_scale = static_cast<float>(gradient_scale),
              .step = ++taken};
        updates.update(in, rules::Adam{0.9F, 0.99F, 1e-6F}, {first[1].span(), second[1].span()});
      }
      scale.adjust(!overflows(step));
      lowest = std::min(lowest, scale.scale());

      const LossScale::State state = scale.state();
      const std::vector<float> reported = test::read(*device, report);
      EXPECT_EQ(std::vector<double>(reported.begin(), reported.end()),
                std::vector<double>(state.begin(), state.end()))
          << "step " << step;
      EXPECT_EQ(test::read(*device, parameters[0]), test::read(*device, parameters[1])) << "step " << step;
    }

    EXPECT_EQ(scale.skipped(), 100 - taken);
    EXPECT_GT(taken, 30);
    EXPECT_EQ(lowest, 1.0F);
  }
}

TEST_F(Judge, BackwardMultipliesWithTheScaleOfThatStep) {
  const auto device = test::gpu();
  const auto guard =
      device->overflow_guard({.rule = {.dynamic = true, .backoff = 0.5F}, .loss_divisor = 8.0F});
  guard->begin({.scale = 64.0F}, 0);
  const auto loss = device->layers().softmax_loss({.batch = 1, .classes = 2});
  const std::vector<std::int32_t> labels = {0};
  const Targets targets{.labels = labels, .valid = 1};
  std::vector<float> equal = {0.0F, 0.0F};
  const Tensor logits = test::staged(*device, {1, 2}, equal);
  Tensor dlogits = device->tensors().zeros({1, 2});
  Storage sums = device->memory().allocate(loss_sums);
  Storage report = device->memory().allocate(report_floats);
  Storage bad = test::storage_of(*device, {std::numeric_limits<float>::quiet_NaN()});

  for (const float scale : {64.0F, 32.0F, 16.0F}) {
    loss->forward(logits, targets, sums.span());
    loss->backward(logits, targets, guard->backward_scale(), dlogits);
    guard->check(bad.span(), 0.1F, 1.0, report.span());

    EXPECT_EQ(test::values_of(*device, dlogits), (std::vector<float>{-scale / 16.0F, scale / 16.0F}));
  }
}

TEST_F(Judge, RestoresWhatAStepMustNotChange) {
  const auto device = test::gpu();
  const auto guard = device->overflow_guard({.rule = {}, .loss_divisor = 1.0F});
  guard->begin({}, 0);
  const Storage before = test::storage_of(*device, {1, 2, 3});
  Storage report = device->memory().allocate(report_floats);
  for (const float gradient : {1.0F, std::numeric_limits<float>::infinity(), 1.0F}) {
    Storage values = test::storage_of(*device, {4, 5, 6});
    Storage gradients = test::storage_of(*device, {gradient});

    guard->check(gradients.span(), 0.1F, 1.0, report.span());
    guard->restore(before.span(), values.span());

    const std::vector<float> expected =
        gradient == 1.0F ? std::vector<float>{4, 5, 6} : std::vector<float>{1, 2, 3};
    EXPECT_EQ(test::read(*device, values), expected);
  }
}

}  // namespace
}  // namespace flotilla
