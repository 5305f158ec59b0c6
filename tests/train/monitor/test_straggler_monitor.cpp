// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/train/monitor/straggler_monitor.hpp"
#include "tests/mpi/on_all_ranks.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/mpi_calls.hpp"
#include "tests/support/within.hpp"
#include "tests/train/training_run.hpp"

// Run on 2 and 4 workers.

namespace flotilla {
namespace {

using test::Texts;
using test::TrainingRun;
using test::operator+;

constexpr std::int64_t ms = 1'000'000;

/// What every worker would measure if `late` came `late_by` after the others, who came together, having lost
/// it in `phase`.
class Story {
 public:
  explicit Story(const mpi::Communicator& world, std::size_t capacity = 1024)
      : world_(world), log(world, capacity) {}

  void step(int late, std::int64_t late_by, Phase phase) {
    const bool here = world_.rank() == late;
    total_.wait_ns += here ? ms : ms + late_by;
    total_[Phase::compute] += 10 * ms;
    if (here) total_[phase] += late_by;
    log.after_step(++synchronisations_, total_);
  }

 private:
  const mpi::Communicator& world_;
  StepTimes total_;
  std::int64_t synchronisations_ = 0;

 public:
  StragglerMonitor log;
};

using StragglerMonitorOnAllRanks = mpi::OnAllRanks;

TEST_F(StragglerMonitorOnAllRanks, NamesTheWorkerThePhaseAndTheCost) {
  Story story(world);
  for (int i = 0; i < 75; ++i) story.step(1, 20 * ms, Phase::optimizer);
  for (int i = 0; i < 25; ++i) story.step(0, 2 * ms, Phase::input);

  const StragglerReport report = story.log.gather();

  EXPECT_TRUE(report.stands_out());
  EXPECT_TRUE(test::within(report.elapsed_s, 75 * 0.031 + 25 * 0.013, 1e-6));
  EXPECT_TRUE(test::within(report.compute_s, 1.0, 1e-6));
  EXPECT_EQ(report.text(report.slowest, "node7"),
            "rank 1 on node7: last 75 of 100 times, in the optimizer, cost all 57 % (1.5 s)");
}

TEST_F(StragglerMonitorOnAllRanks, BlamesWhoWaitedLeastForWhatTheNextDid) {
  const auto workers = static_cast<std::size_t>(world.size());
  const auto own = static_cast<std::size_t>(world.rank());
  std::mt19937 random(3);  // the same on all
  StragglerMonitor log(world);
  StepTimes total;
  std::vector<std::int64_t> times_last(workers);
  std::vector<std::int64_t> cost_ns(workers);
  for (int i = 1; i <= 1000; ++i) {
    std::vector<std::int64_t> waits(workers);
    for (std::int64_t& wait : waits)
      wait = 1'000'000'007 * static_cast<std::int64_t>(random() % 8);  // some are equal
    total.wait_ns += waits[own];
    log.after_step(i, total);
    const auto last = std::ranges::min_element(waits);
    const auto worker = static_cast<std::size_t>(last - waits.begin());
    const std::int64_t least = std::exchange(*last, std::int64_t{1} << 62);
    ++times_last[worker];
    cost_ns[worker] += std::ranges::min(waits) - least;
  }
  test::mpi_calls() = {};

  const StragglerReport report = log.gather();

  EXPECT_EQ(log.times_last(), times_last[own]);
  EXPECT_EQ(log.cost_s(), static_cast<double>(cost_ns[own]) * 1e-9);
  EXPECT_EQ(report.slowest, std::ranges::max_element(cost_ns) - cost_ns.begin());
  EXPECT_LE(test::mpi_calls().gathered, 16);  // whatever the number of synchronisations
}

TEST_F(StragglerMonitorOnAllRanks, BeginsAnewAfterAReportAndRemembersTheWhole) {
  Story story(world);
  for (int i = 0; i < 10; ++i) story.step(1, 20 * ms, Phase::saving);
  story.log.gather();
  for (int i = 0; i < 20; ++i) story.step(0, 30 * ms, Phase::input);

  const StragglerReport second = story.log.gather();
  const StragglerReport whole = story.log.whole();

  EXPECT_EQ(second.text(second.slowest, "a"),
            "rank 0 on a: last 20 of 20 times, in waiting for input, cost all 73 % (0.60 s)");
  EXPECT_EQ(whole.text(whole.slowest, "a"),
            "rank 0 on a: last 20 of 30 times, in waiting for input, cost all 53 % (0.60 s)");
  EXPECT_EQ(story.log.times_last(), world.rank() == 0 ? 20 : world.rank() == 1 ? 10 : 0);
}

TEST_F(StragglerMonitorOnAllRanks, NamesNobodyWhereAllAreEven) {
  Story story(world);
  for (int i = 0; i < 100; ++i) story.step(i % world.size(), 8 * ms, Phase::compute);

  const StragglerReport report = story.log.gather();

  EXPECT_EQ(report.synchronisations, 100);
  EXPECT_FALSE(report.stands_out());
}

TEST_F(StragglerMonitorOnAllRanks, BlamesCommunicationWhereNoPhaseGrew) {
  StragglerMonitor log(world);
  StepTimes total;
  for (int i = 1; i <= 100; ++i) {
    total.wait_ns += world.rank() == 1 ? 5 * ms : 10 * ms;
    total[Phase::compute] += 10 * ms;
    log.after_step(i, total);
  }

  EXPECT_EQ(log.gather().phase, "communication");
}

TEST_F(StragglerMonitorOnAllRanks, KeepsASampleOfMoreThanItHasRoomFor) {
  Story story(world, 16);
  for (int i = 0; i < 100; ++i) story.step(1, 20 * ms, Phase::compute);

  const StragglerReport report = story.log.gather();

  EXPECT_EQ(report.synchronisations, 100);
  EXPECT_EQ(report.times_last, 100);
  EXPECT_TRUE(test::within(report.cost_s, 2.0, 1e-6));
}

TEST_F(StragglerMonitorOnAllRanks, CountsMeetingsNotSteps) {
  StragglerMonitor log(world);
  StepTimes total;
  for (int step = 1; step <= 100; ++step) {
    total[Phase::input] += world.rank() == 0 ? 10 * ms : 0;
    if (step % 4 == 0) total.wait_ns += world.rank() == 0 ? 0 : 40 * ms;
    log.after_step(step / 4, total);
  }

  const StragglerReport report = log.gather();

  EXPECT_EQ(report.synchronisations, 25);
  EXPECT_EQ(report.slowest, 0);
  EXPECT_EQ(report.phase, "waiting for input");
  EXPECT_TRUE(test::within(report.cost_s, 1.0, 1e-6));
}

TEST_F(StragglerMonitorOnAllRanks, AllocatesNothingInAStep) {
  Story story(world, 16);
  const std::int64_t before = test::allocations_of_this_thread();

  for (int i = 0; i < 100; ++i) story.step(1, ms, Phase::compute);

  EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
}

const Texts slow_rank = {"run.emulate_straggler.rank=1", "run.emulate_straggler.pause_s=0.02"};

TEST(EmulatedStraggler, IsFoundInATraining) {
  for (const Texts& buckets : {Texts{}, {"strategy.bucket_mb=0.02", "strategy.last_bucket_mb=0.001"}}) {
    test::ShippedMlpRun run(Texts{"train.global_batch_size=32"} + slow_rank + buckets);
    StragglerMonitor log(run.world);
    StepTimes total;
    for (int i = 1; i <= 20; ++i) {
      run.step();
      total.wait_ns = run.trainer.times().exposed_comm_ns();
      total[Phase::pause] = run.trainer.times().pause_ns;
      total[Phase::compute] = run.trainer.times().forward_ns + run.trainer.times().backward_ns;
      log.after_step(i, total);
    }

    const StragglerReport report = log.gather();

    EXPECT_EQ(report.slowest, 1);
    EXPECT_EQ(report.phase, "the emulated pause");
    EXPECT_GT(report.times_last, 10);
    EXPECT_GT(report.cost_s, 0.2);
    EXPECT_EQ(total[Phase::pause] > 0, run.world.rank() == 1);
  }
}

TEST(RunParts, CountsTheWaitOfSynchronisedBatchNormAsCommunication) {
  if (mpi::Communicator::world().size() > 2) GTEST_SKIP() << "two will do";
  TrainingRun run(mpi::Communicator::world(), test::resnet_deck, {"model.batch_norm=synchronised"});
  run.step();

  const std::int64_t exchange_ns = run.parts.machine.exchange->waited_ns();

  EXPECT_GT(exchange_ns, 0);
  EXPECT_EQ(run.trainer.times().exposed_comm_ns(), run.trainer.times().sums_ns + exchange_ns);
}

TEST(EmulatedStraggler, PausesInEverySoManySteps) {
  const EmulatedStraggler straggler(
      {.rank = 1, .slow_factor = 3.0, .pause_s = 0.0, .every = 4, .take_turns = false}, 1, 2);

  EXPECT_GE(straggler.pause(8, 2 * ms), 4 * ms);
  EXPECT_EQ(straggler.pause(9, 2 * ms), 0);
  EXPECT_EQ(straggler.description(), "rank 1 computes 3 times as long in every 4 steps the first");
}

TEST(EmulatedStraggler, TakesTurns) {
  const EmulatedStragglerConfig config{
      .rank = 1, .slow_factor = 3.0, .pause_s = 0.0, .every = 4, .take_turns = true};
  const EmulatedStraggler first(config, 1, 2);
  const EmulatedStraggler second(config, 0, 2);

  EXPECT_GT(first.pause(0, ms), 0);
  EXPECT_EQ(second.pause(0, ms), 0);
  EXPECT_EQ(first.pause(4, ms), 0);
  EXPECT_GT(second.pause(4, ms), 0);
  EXPECT_EQ(first.description(),
            "in turn, beginning with rank 1 computes 3 times as long in every 4 steps the first");
}

TEST(EmulatedStraggler, MustBeAWorker) {
  EXPECT_EQ(test::error_of([&] {
              EmulatedStraggler(
                  {.rank = 2, .slow_factor = 3.0, .pause_s = 0.0, .every = 1, .take_turns = false}, 0, 2);
            }),
            "run.emulate_straggler.rank = 2, but there are 2 workers: give at most 1");
}

}  // namespace
}  // namespace flotilla
