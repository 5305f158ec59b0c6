// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/train/monitor/agreement.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/within.hpp"
#include "tests/train/training_run.hpp"

// Run on 2, 3 and 4 workers.

namespace flotilla {
namespace {

using test::operator+;

struct CheckedRun : test::ShippedMlpRun {
  explicit CheckedRun(const test::Texts& more = {})
      : ShippedMlpRun(test::Texts{"train.global_batch_size=24"} + more),
        check(world, *parts.model.network, state_arrays(parts.model.weights, parts.model.optimizer.get())) {
    step();
  }

  void change(std::size_t at, float difference) {
    const DeviceSpan<float> one = parts.model.weights.parameters.subspan(at, 1);
    const float changed = values(one)[0] + difference;
    parts.machine.device->memory().upload({&changed, 1}, one);
  }
  /// Adds `difference` to a value of the named tensor.
  void corrupt(const std::string& tensor, std::size_t index, float difference) {
    for (const Slice& slice : parts.model.network->layout().slices())
      if (slice.name == tensor) change(static_cast<std::size_t>(slice.offset) + index, difference);
  }

  AgreementCheck check;
};

TEST(AgreementCheck, FindsNothingAfterAStep) {
  CheckedRun run;
  ASSERT_FALSE(run.check.compare(run.parts.sync.strategy->replicated()).has_value());
  const std::int64_t before = test::allocations_of_this_thread();

  const auto found = run.check.compare(run.parts.sync.strategy->replicated());

  EXPECT_FALSE(found.has_value());
  EXPECT_EQ(test::allocations_of_this_thread(), before);
}

TEST(AgreementCheck, NamesTheRankThatDiffersAndTheFirstTensor) {
  CheckedRun run;
  const int bad = run.world.size() - 1;
  const std::vector<Slice>& slices = run.parts.model.network->layout().slices();
  if (run.world.rank() == bad) {
    run.corrupt(slices[1].name, 3, 0.5F);
    run.corrupt(slices[1].name, 5, 0.5F);
    run.corrupt(slices[2].name, 0, 0.5F);
  }

  const auto found = run.check.compare(run.parts.sync.strategy->replicated());

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ranks, std::vector{bad});
  EXPECT_EQ(found->reference, 0);
  EXPECT_EQ(found->tensor, slices[1].name);
  EXPECT_EQ(found->differing, 2);
  EXPECT_EQ(found->size, slices[1].size);
  EXPECT_TRUE(test::within(found->value - found->reference_value, 0.5F, 1e-6F));
}

TEST(AgreementCheck, TrustsTheMost) {
  CheckedRun run;
  if (run.world.size() < 3) GTEST_SKIP() << "two can only differ";
  const std::string& last = run.parts.model.network->layout().slices().back().name;
  if (run.world.rank() == 0) run.corrupt(last, 0, 0.5F);

  const auto found = run.check.compare(run.parts.sync.strategy->replicated());

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ranks, std::vector{0});
  EXPECT_EQ(found->reference, 1);
  EXPECT_EQ(found->tensor, last);
}

TEST(AgreementCheck, ComparesNothingWhereNothingIsHeldAlike) {
  CheckedRun run;
  if (run.world.rank() == 0) run.corrupt(run.parts.model.network->layout()[0].name, 0, 0.5F);

  EXPECT_FALSE(run.check.compare({}).has_value());
}

TEST(AgreementCheck, SeesSlotsOfTheOptimizer) {
  CheckedRun run({"optimizer.kind=momentum"});
  AgreementCheck without(run.world, *run.parts.model.network, state_arrays(run.parts.model.weights, nullptr));
  const float changed = 7.0F;
  if (run.world.rank() == run.world.size() - 1)
    run.parts.machine.device->memory().upload({&changed, 1},
                                              run.parts.model.optimizer->slots()[0].values.subspan(0, 1));

  const auto found = run.check.compare(run.parts.sync.strategy->replicated());

  EXPECT_FALSE(without.compare(run.parts.sync.strategy->replicated()).has_value());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ranks, std::vector{run.world.size() - 1});
  EXPECT_EQ(found->tensor, "optimizer/momentum/" + run.parts.model.network->layout()[0].name);
  EXPECT_EQ(found->value, changed);
}

TEST(AgreementCheck, ComparesTheWorkersOfAGroup) {
  CheckedRun run;
  const int bad = run.world.size() == 4 ? 3 : 1;
  const std::vector<int> groups = run.world.size() == 4   ? std::vector{0, 0, 1, 1}
                                  : run.world.size() == 3 ? std::vector{0, 0, 1}
                                                          : std::vector{0, 0};
  run.change(0, static_cast<float>(groups[static_cast<std::size_t>(run.world.rank())]));
  EXPECT_FALSE(run.check.compare({.groups = groups}).has_value()) << "groups may differ from each other";
  if (run.world.rank() == bad) run.change(1, 0.5F);

  const auto found = run.check.compare({.groups = groups});

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ranks, std::vector{bad});
  EXPECT_EQ(found->reference, bad - 1);
  EXPECT_EQ(found->compared, 2);
  EXPECT_EQ(found->differing, 1);
}

TEST(Disagreement, SaysWhoHoldsWhat) {
  const auto held_by = [](std::vector<int> ranks, int compared) {
    return Disagreement{.ranks = std::move(ranks),
                        .reference = 0,
                        .compared = compared,
                        .tensor = "fc.bias",
                        .size = 10,
                        .differing = 1,
                        .value = 0.5F,
                        .reference_value = 0.25F};
  };
  const Disagreement one = held_by({2}, 3);
  const Disagreement two = held_by({1, 2}, 4);

  EXPECT_EQ(one.text(400),
            "holds another model than the others after step 400: the first tensor that differs is fc.bias (1 "
            "of 10 values, the first is 0.5 here and 0.25 on rank 0); the memory or processor of a host is "
            "bad, or this is a mistake in Flotilla");
  EXPECT_EQ(two.text(400),
            "and rank 2 hold another model than the others after step 400: the first tensor that differs is "
            "fc.bias (1 of 10 values, the first is 0.5 here and 0.25 on rank 0); which is right cannot be "
            "determined; the memory or processor of a host is bad, or this is a mistake in Flotilla");
}

}  // namespace
}  // namespace flotilla
