// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>

#include "kernels/openmp_waiting.hpp"
#include "kernels/threads.hpp"

namespace flotilla {
namespace {

TEST(ComputingThreads, AreThisOneAndThoseOfOpenMp) {
  const std::vector<std::int64_t> ids = computing_threads(3);

  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(ids[0], syscall(SYS_gettid));
  EXPECT_EQ(std::set<std::int64_t>(ids.begin(), ids.end()).size(), 3U);
  EXPECT_EQ(computing_threads(3), ids);
  EXPECT_EQ(computing_threads(1).size(), 1U);
}

TEST(ThreadsFor, IsOneForAPassOfASmallModel) {
  EXPECT_EQ(threads_for(8, 64 * 128), 1);
  EXPECT_EQ(threads_for(8, 32 * 64 * 56 * 56), 8);
}

}  // namespace
}  // namespace flotilla
