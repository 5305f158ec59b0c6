// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/train/training_run.hpp"

namespace flotilla::test {
namespace {

constexpr const char* deck_text = R"(
[model]
kind = "mlp"
widths = [4]
classes = 3
[data]
kind = "random"
shape = [5]
[data.train]
samples = 64
[train]
steps = 1000
global_batch_size = 16
[optimizer]
kind = "sgd"
[schedule]
learning_rate = 0.01
)";

/// Steps of the strategy alone, whose samples come to `loss` each.
struct Steps : TrainingRun {
  explicit Steps(const std::string& device)
      : TrainingRun(mpi::Communicator::world(), deck_text, {"device.kind=" + device}) {}

  StepOutcome finish(float loss, bool now, bool votes = false) {
    const std::array<float, loss_sums> sums{4.0F * loss, 2.0F, 3.0F, 4.0F};
    parts.machine.device->memory().upload(sums, parts.sync.sums->loss_sums());
    parts.sync.strategy->begin_step(votes);
    parts.sync.sums->add_ready(0, step_);
    parts.sync.sums->wait(step_++);
    const bool overflowed = parts.sync.update->prepare(0.0, parts.sync.sums->summands());
    const StepOutcome outcome = parts.sync.update->outcome(now);
    if (!overflowed) parts.sync.update->apply(0.0);
    parts.sync.sums->clear_header();
    return outcome;
  }

 private:
  std::int64_t step_ = 0;
};

class DelayedMetrics : public testing::TestWithParam<const char*> {};

TEST_P(DelayedMetrics, AreThoseOfTheStepBefore) {
  Steps steps(GetParam());

  std::vector<double> losses;
  for (const float loss : {1.0F, 2.0F, 3.0F, 4.0F}) losses.push_back(steps.finish(loss, false).loss);

  EXPECT_EQ(losses, (std::vector<double>{0.0, 1.0, 2.0, 3.0}));
}

TEST_P(DelayedMetrics, AreLeftOutWhereTheOutcomeIsWantedNow) {
  Steps steps(GetParam());

  std::vector<double> losses;
  losses.push_back(steps.finish(1.0F, true).loss);
  losses.push_back(steps.finish(2.0F, false).loss);
  losses.push_back(steps.finish(3.0F, true).loss);
  losses.push_back(steps.finish(4.0F, false).loss);
  losses.push_back(steps.finish(5.0F, false).loss);

  EXPECT_EQ(losses, (std::vector<double>{1.0, 0.0, 3.0, 0.0, 4.0}));
}

TEST_P(DelayedMetrics, TellOfAWishToStopOneStepLater) {
  Steps steps(GetParam());
  const bool wishes = steps.world.is_root();

  EXPECT_FALSE(steps.finish(1.0F, false, wishes).stop);
  const StepOutcome next = steps.finish(1.0F, false);

  EXPECT_TRUE(next.stop);
  EXPECT_TRUE(next.late);
  EXPECT_EQ(next.samples, 4.0 * steps.world.size());
  EXPECT_FALSE(steps.finish(1.0F, true).late);
}
INSTANTIATE_TEST_SUITE_P(Devices, DelayedMetrics, testing::Values("cpu", "reference"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace flotilla::test
