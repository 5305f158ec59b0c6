// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "mpi/core/communicator.hpp"

// All ranks run all tests; rank 0 speaks; any rank's failure fails the run.
namespace {

/// Prints failures only, each led by the rank. It does not communicate: it is called only where something
/// failed.
class RankPrinter : public testing::EmptyTestEventListener {
 public:
  explicit RankPrinter(int rank) : rank_(rank) {}

  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }

  /// GoogleTest holds its lock here: asking it for the current test would wait forever.
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name() != nullptr ? result.file_name() : "unknown file";
    std::fprintf(stderr, "[rank %d] %s %s:%d: %s\n", rank_, test_.c_str(), file, result.line_number(),
                 result.message());
  }

 private:
  int rank_;
  std::string test_;
};

int run_on_all_ranks(const flotilla::mpi::Communicator& world) {
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (!world.is_root()) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new RankPrinter(world.rank()));
  }
  int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "[rank %d] no test was run\n", world.rank());
    failed = 1;
  }
  world.all_reduce(std::span(&failed, 1), flotilla::mpi::Op::max);
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(catch_exceptions, false);  // an exception on one rank must not strand the others
  try {
    flotilla::mpi::Environment environment(argc, argv);
    const auto world = flotilla::mpi::Communicator::world();
    return run_on_all_ranks(world);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uncaught: %s\n", error.what());
    flotilla::mpi::abort_job(1);
  }
}
