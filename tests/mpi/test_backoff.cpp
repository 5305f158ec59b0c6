// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/trace.hpp"
#include "mpi/core/backoff.hpp"

namespace flotilla::mpi {
namespace {

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t nap_ns = 50'000;

TEST(Backoff, SleepsInEachPauseOnceItHasYieldedForItsTime) {
  constexpr int spins = 8;
  Backoff backoff(spins, 5 * ms, nap_ns);
  for (int i = 0; i <= spins; ++i) backoff.pause();
  const std::int64_t yielded_ns = trace::now_ns();
  while (trace::now_ns() < yielded_ns + 5 * ms) backoff.pause();

  for (int i = 0; i < 20; ++i) {
    const std::int64_t begin_ns = trace::now_ns();
    backoff.pause();
    EXPECT_GE(trace::now_ns() - begin_ns, nap_ns);
  }
}

TEST(Backoff, SleepsAtOnceWithoutSpinsAndYields) {
  Backoff backoff(0, 0, nap_ns);
  const std::int64_t begin_ns = trace::now_ns();

  backoff.pause();

  EXPECT_GE(trace::now_ns() - begin_ns, nap_ns);
}

TEST(Backoff, WaitsUntilItIsDone) {
  int looks = 0;

  wait_until([&] { return ++looks == 20; }, Backoff(4, 0, 1000));

  EXPECT_EQ(looks, 20);
}

}  // namespace
}  // namespace flotilla::mpi
