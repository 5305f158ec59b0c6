// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/train/monitor/resource_advice.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr std::int64_t s = 1'000'000'000;

TEST(InputNeed, IsThreadsThatReadWhileTheStepsCompute) {
  // Two threads that never rest, one third of the time is waiting.
  const InputTimes times{.step_ns = 9 * s, .wait_ns = 3 * s, .read_ns = 18 * s};

  EXPECT_TRUE(test::within_double_roundings(times.wait_share(), 1.0 / 3.0, 4));
  EXPECT_EQ(times.threads_needed(), 3);
  EXPECT_TRUE(times.stands_out());
  EXPECT_EQ(input_advice(times, {.threads = 2, .prefetch = 4, .cores = 8}),
            "took 33 % of the time: about 3 data.threads would keep up (2 now)");
}

TEST(InputNeed, LeavesOutTheTimeThatWorkersWaitForEachOther) {
  EXPECT_EQ(
      (InputTimes{.step_ns = 10 * s, .wait_ns = 4 * s, .read_ns = 10 * s, .comm_ns = 4 * s}.threads_needed()),
      5);
}

TEST(InputNeed, IsRoundedUp) {
  EXPECT_EQ((InputTimes{.step_ns = 10 * s, .wait_ns = 5 * s, .read_ns = 10 * s}.threads_needed()), 2);
  EXPECT_EQ((InputTimes{.step_ns = 10 * s, .wait_ns = 5 * s, .read_ns = 10 * s + 1}.threads_needed()), 3);
}

TEST(InputNeed, SaysWhatTheHostHasWhereThatIsLess) {
  const InputTimes times{.step_ns = 10 * s, .wait_ns = 9 * s, .read_ns = 10 * s};

  EXPECT_EQ(input_advice(times, {.threads = 1, .prefetch = 4, .cores = 4}, "rank 3 on node7"),
            "took 90 % of the time of rank 3 on node7: about 10 data.threads would keep up (1 now); this "
            "rank's share of its host is 4 cores");
  EXPECT_EQ(input_advice(times, {.threads = 1, .prefetch = 4, .cores = 1}),
            "took 90 % of the time: about 10 data.threads would keep up (1 now); this rank's share of its "
            "host is 1 core");
  EXPECT_EQ(input_advice(times, {.threads = 1, .prefetch = 4, .cores = 10}).find("share"), std::string::npos);
}

TEST(InputNeed, OfSamplesThatComeInBurstsIsMoreRoomNotMoreThreads) {
  const InputTimes times{.step_ns = 10 * s, .wait_ns = 2 * s, .read_ns = 9 * s};

  EXPECT_EQ(input_advice(times, {.threads = 2, .prefetch = 4, .cores = 8}),
            "took 20 % of the time, though 2 data.threads read fast enough on average: a larger "
            "data.prefetch (4 now) may help");
}

TEST(InputNeed, IsAnotherCoreWhereTheReadersHaveNone) {
  const InputTimes times{.step_ns = 10 * s, .wait_ns = 2 * s, .read_ns = 4 * s};

  EXPECT_EQ(input_advice(times, {.threads = 1, .prefetch = 4, .cores = 1, .computing = 1, .spare = 1}),
            "took 20 % of the time, though 1 data.threads read fast enough on average, on the cores that "
            "compute: give each rank one more (mpirun --bind-to none, srun --cpus-per-task=2)");
  EXPECT_EQ(input_advice(times, {.threads = 1, .prefetch = 4, .cores = 2, .computing = 2, .spare = 0}),
            "took 20 % of the time, though 1 data.threads read fast enough on average, on the cores that "
            "compute, and this host has no others: fewer ranks or device.threads there may help, a larger "
            "data.prefetch does not");
}

TEST(InputNeed, IsNotWorthAWordBelowATenthOrATenthOfASecond) {
  EXPECT_TRUE((InputTimes{.step_ns = 20 * s, .wait_ns = 2 * s, .read_ns = s}.stands_out()));
  EXPECT_FALSE((InputTimes{.step_ns = 20 * s, .wait_ns = 2 * s - 1, .read_ns = s}.stands_out()));
  EXPECT_FALSE((InputTimes{.step_ns = s / 10, .wait_ns = s / 10, .read_ns = s}.stands_out()));
  EXPECT_FALSE(InputTimes().stands_out());
}

TEST(InputNeed, IsThatOfTheStepsBetweenTwoMoments) {
  InputTimes times{.step_ns = 30 * s, .wait_ns = 13 * s, .read_ns = 50 * s, .comm_ns = 9 * s};
  times -= {.step_ns = 20 * s, .wait_ns = 8 * s, .read_ns = 40 * s, .comm_ns = 8 * s};

  EXPECT_TRUE(test::within_double_roundings(times.wait_share(), 0.5, 4));
  EXPECT_EQ(times.threads_needed(), 3);
}

TEST(ProcessorWaiting, IsWorthAWordFromAQuarterAndHalfASecondOn) {
  EXPECT_TRUE((ProcessorWaiting{.span_ns = 8 * s, .queued_ns = 2 * s}.stands_out()));
  EXPECT_FALSE((ProcessorWaiting{.span_ns = 8 * s, .queued_ns = 2 * s - 1}.stands_out()));
  EXPECT_FALSE((ProcessorWaiting{.span_ns = s / 2, .queued_ns = s / 2}.stands_out()));
  EXPECT_FALSE(ProcessorWaiting().stands_out());
}

TEST(ProcessorWaiting, OfSeveralThreadsIsAtMostAllOfTheTime) {
  EXPECT_TRUE(test::within_double_roundings((ProcessorWaiting{.span_ns = 2 * s, .queued_ns = 3 * s}.share()),
                                            1.0, 4));
}

TEST(ProcessorWaiting, NamesTheRemedyThatFits) {
  const ProcessorWaiting waiting{.span_ns = 10 * s, .queued_ns = 6 * s};
  const auto says = [&](const ProcessorMeans& means, const std::string& part) {
    const std::string text = processor_advice(waiting, means, "rank 3 on node7");
    EXPECT_EQ(
        text.find(
            "were taken 60 % of the time, while a thread of rank 3 on node7 had something to compute: "),
        0U)
        << text;
    EXPECT_TRUE(test::mentions(text, {part}));
  };

  says({.threads = 2, .cores = 4}, "stop other programs there");
  says({.threads = 4, .cores = 2}, "4 threads share 2 cores; set device.threads = 0");
  says({.threads = 1, .cores = 1, .bound = true}, "this rank is bound to 1 core");
  says({.threads = 1, .cores = 1, .bound = true}, "--cpus-per-task=2");
}

TEST(ProcessorQueue, OfAThreadThatIsNotThereIsNothing) {
  EXPECT_EQ(ProcessorQueue({}).waited_ns(), 0);
  EXPECT_EQ(ProcessorQueue({-1}).waited_ns(), 0);
}

}  // namespace
}  // namespace flotilla
