// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/cpu/native_precisions.hpp"
#include "tests/support/within.hpp"
#include "tests/train/plain_values.hpp"
#include "tests/train/served_run.hpp"

// Every strategy in bfloat16 on the processor, on two ranks: it follows the reference device, whose bits it
// has but for sums that are added in another order.

namespace flotilla::test {
namespace {

/// What all share after some steps, on the workers.
std::vector<float> train(const Texts& strategy, const Texts& device) {
  std::vector<float> values;
  with_run(small_mlp_deck, strategy + device + Texts{"model.dropout=0.1"}, [&](TrainingRun& run) {
    for (int i = 0; i < 12; ++i) run.step();
    values = plain_values(run, run.parts.sync.strategy->consensus());
  });
  return values;
}

const std::vector<Texts>& strategies() {
  static const std::vector<Texts> all = {
      {"strategy.kind=all-reduce"},
      {"strategy.kind=all-reduce", "train.accumulate_steps=2", "optimizer.kind=lamb"},
      {"strategy.kind=local-sgd", "strategy.period=3"},
      {"strategy.kind=local-sgd", "strategy.period=4", "strategy.outer.kind=nesterov",
       "strategy.outer.momentum=0.5"},
      {"strategy.kind=adaptive-local-sgd"},
      served({"server.mode=sync"}),
      served({"server.mode=async"}),
      served({"server.mode=half-async", "server.push_every=3"}),
      served({"server.mode=geo", "server.push_every=3"})};
  return all;
}

TEST(Bfloat16, FollowsTheReferenceWithEveryStrategy) {
  if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  const Texts halves = {"device.precision=bfloat16"};
  for (const Texts& strategy : strategies()) {
    const std::string where = text_of(strategy);
    const std::vector<float> found = train(strategy, halves + Texts{"device.kind=cpu"});
    const std::vector<float> expected = train(strategy, halves + Texts{"device.kind=reference"});
    const std::vector<float> unrounded = train(strategy, {"device.kind=reference"});

    if (expected.empty()) continue;  // a server
    EXPECT_TRUE(test::within(relative_difference(found, expected), 0.0,
                             0.25 * relative_difference(unrounded, expected)))
        << where;
    EXPECT_GT(relative_difference(unrounded, expected), 1e-6) << where;
  }
}

}  // namespace
}  // namespace flotilla::test
