// SPDX-License-Identifier: Apache-2.0
#include "src/data/run_on_threads.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <stdexcept>
#include <system_error>

namespace flotilla {
namespace {

TEST(RunOnThreads, EndsItsThreadsWhereTheReportThrows) {
  std::atomic<int> done{0};
  const auto work = [&](std::size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++done;
  };
  const auto report = [] { throw std::runtime_error("the console is gone"); };
  EXPECT_THROW(run_on_threads(1000, 2, work, report), std::runtime_error);
  EXPECT_GT(done, 0);
  EXPECT_LT(done, 1000);
}

TEST(RunOnThreads, SaysThatAThreadCannotBeStarted) {
  pthread_attr_t usual;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  pthread_attr_t huge;
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);  // more than there are addresses
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  EXPECT_THROW(run_on_threads(
                   8, 2, [](std::size_t) {}, [] {}),
               std::system_error);
  EXPECT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
}

}  // namespace
}  // namespace flotilla
