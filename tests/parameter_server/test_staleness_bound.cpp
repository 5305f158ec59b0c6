// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "src/parameter_server/server/staleness_bound.hpp"

namespace flotilla {
namespace {

struct CountedLess {
  static inline std::int64_t calls = 0;
  template <class T>
  bool operator()(const T& a, const T& b) const {
    ++calls;
    return a < b;
  }
};

/// The rule as it reads: each worker that is held against all others.
struct PlainBound {
  struct Worker {
    std::int64_t pushes = 0;
    bool awaited = true;
    std::optional<std::int64_t> held{};
  };

  std::vector<std::size_t> release() {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const Worker& worker : workers)
      if (worker.awaited) least = std::min(least, worker.pushes);
    std::vector<std::size_t> released;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      std::optional<std::int64_t>& held = workers[i].held;
      if (!held || (bound > 0 && least < *held - bound)) continue;
      released.push_back(i);
      held.reset();
    }
    return released;
  }

  std::int64_t bound;
  std::vector<Worker> workers;
};

TEST(StalenessBound, ReleasesWhatThePlainRuleReleases) {
  std::mt19937 random(7);
  for (const std::int64_t bound : {0, 1, 3}) {
    constexpr std::size_t workers = 6;
    StalenessBound<> tested(workers, bound);
    PlainBound plain{bound, std::vector<PlainBound::Worker>(workers)};
    std::size_t most = 0;
    for (int event = 0; event < 20000; ++event) {
      // The higher the worker's number, the less it does.
      const std::size_t worker = std::min(random() % workers, random() % workers);
      PlainBound::Worker& one = plain.workers[worker];
      const bool complete = random() % 2 == 0;
      if (random() % 16 == 0) {
        one.awaited = false;  // It waits for others, or leaves.
        tested.set_awaited(worker, false);
      } else if (!one.held || *one.held > one.pushes) {  // else it awaits its answer
        one.awaited = true;
        tested.set_awaited(worker, true);
        one.held = one.pushes + 1;
        if (complete) {
          ++one.pushes;
          tested.count(worker);
        }
        tested.hold(worker, complete);
      }

      std::vector<std::size_t> released;
      tested.release([&](std::size_t held) { released.push_back(held); });
      std::ranges::sort(released);

      ASSERT_EQ(released, plain.release()) << "event " << event << ", bound " << bound;
      most = std::max(most, released.size());
    }
    EXPECT_GT(most, bound == 0 ? 0U : 2U);  // some were held
  }
}

/// Comparisons for each part of a push, where all workers but the last are a push ahead of it and wait.
double comparisons_with_a_straggler(std::size_t workers) {
  constexpr std::size_t rounds = 10;
  constexpr int parts = 4;
  StalenessBound<CountedLess> bound(workers, 1);
  std::size_t answers = 0;
  const auto push = [&](std::size_t worker) {
    for (int part = 1; part <= parts; ++part) {
      bound.set_awaited(worker, true);
      if (part == parts) bound.count(worker);
      bound.hold(worker, part == parts);
      bound.release([&](std::size_t) { ++answers; });
    }
  };
  const std::size_t straggler = workers - 1;
  CountedLess::calls = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (int ahead = 0; ahead < 2; ++ahead)
      for (std::size_t worker = 0; worker < straggler; ++worker) push(worker);
    EXPECT_EQ(answers, (round * (parts + 1) + parts) * straggler + 2 * round * parts);
    push(straggler);
    push(straggler);
  }
  return static_cast<double>(CountedLess::calls) / static_cast<double>(2 * rounds * parts * workers);
}

// A tree of n has at most 2 log2(n + 1) levels. A part searches the held workers once; the trees of counts,
// of up to 4 different ones, a complete push searches twice.
TEST(StalenessBound, CostsALogarithmOfTheWorkers) {
  for (const std::size_t workers : {8U, 256U, 4096U})
    EXPECT_LE(comparisons_with_a_straggler(workers), 2.0 * std::log2(static_cast<double>(workers + 1)) + 14.0)
        << workers;
}

/// Comparisons for each message of a step: a part of each worker's push, then the next.
double comparisons_of_equal_steps(std::size_t workers) {
  constexpr std::int64_t parts = 57;
  LeastCount<CountedLess> here;
  CountedLess::calls = 0;
  for (std::int64_t part = 1; part <= parts; ++part)
    for (std::size_t worker = 0; worker < workers; ++worker) {
      if (part > 1) here.remove(part - 1);
      here.add(part);
      EXPECT_EQ(here.least(), part == 1 || worker + 1 == workers ? part : part - 1);
    }
  return static_cast<double>(CountedLess::calls) / static_cast<double>(parts * workers);
}

TEST(LeastCount, CostsTheSameForAnyNumberOfEqualMembers) {
  const double few = comparisons_of_equal_steps(8);
  EXPECT_LE(few, 12.0);
  EXPECT_LE(comparisons_of_equal_steps(256), few + 1.0);
}

TEST(LeastCount, OfAnEmptyGroupIsTheLargestInteger) {
  LeastCount<> counts;
  EXPECT_EQ(counts.least(), std::numeric_limits<std::int64_t>::max());
  counts.add(3, 2);
  counts.remove(3);
  EXPECT_EQ(counts.least(), 3);
  counts.remove(3);
  EXPECT_EQ(counts.least(), std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace flotilla
