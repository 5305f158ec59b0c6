// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/train/monitor/resource_advice.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr std::int64_t s = 1'000'000'000;

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
    EXPECT_EQ(text.find("were taken 60 % of the time, while a thread of rank 3 on node7 had something to "
                        "compute: "),
              0U)
        << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
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
