// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>

#include "kernels/host_memory.hpp"
#include "tests/models/resnet_support.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::relative_difference;
using test::ResnetCase;
using test::ResnetRun;

/// Workers that are threads of this process.
class Threads {
 public:
  explicit Threads(int workers) : workers_(workers), barrier_(workers) {}

  class Exchange : public WorkerExchange {
   public:
    Exchange(Threads& threads, int worker) : threads_(threads), worker_(worker) {}
    int workers() const override { return threads_.workers_; }
    void reserve(std::size_t) override {}
    void all_reduce(DeviceSpan<double> values) override {
      const std::span<double> mine = host_span(values);
      threads_.meet([&] { threads_.values_.resize(mine.size() * static_cast<std::size_t>(workers())); },
                    worker_ == 0);
      std::ranges::copy(mine, threads_.values_.begin() + worker_ * std::ssize(mine));
      threads_.meet([] {}, false);
      std::ranges::fill(mine, 0.0);
      for (std::size_t i = 0; i < threads_.values_.size(); ++i) mine[i % mine.size()] += threads_.values_[i];
      threads_.meet([] {}, false);
    }

   private:
    Threads& threads_;
    int worker_;
  };

 private:
  template <class Do>
  void meet(Do action, bool mine) {
    if (mine) action();
    barrier_.arrive_and_wait();
  }

  int workers_;
  std::barrier<> barrier_;
  std::vector<double> values_;
};

ResnetCase spec_of(std::int64_t batch, WorkerExchange* exchange) {
  return {.model = {.depth = 18, .outputs = 10}, .input = {batch, 3, 64, 64}, .exchange = exchange};
}

struct Result {
  double loss = 0.0;
  std::vector<float> gradients;
  std::vector<float> statistics;
};

/// One step of every worker with its images.
std::vector<Result> step_together(int count, std::int64_t batch) {
  Threads threads(count);
  std::vector<Result> results(static_cast<std::size_t>(count));
  std::vector<std::thread> workers;
  for (int w = 0; w < count; ++w) {
    workers.emplace_back([&, w] {
      Threads::Exchange exchange(threads, w);
      ResnetRun run("cpu", spec_of(batch, &exchange), w * batch);
      run.lift_above_zero();
      Result& result = results[static_cast<std::size_t>(w)];
      result.loss = run.step(0.125F);
      result.gradients = run.plain_gradients();
      result.statistics = run.step_statistics();
    });
  }
  for (std::thread& worker : workers) worker.join();
  return results;
}

class SynchronisedNorm : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, SynchronisedNorm, testing::Values(2, 4));

// Sums in another order: rounding, which 18 layers enlarge. Two values of a window of the pooling may be that
// near, of 131072 windows: each that chooses another one moves the gradients before it by 1 / √131072.
TEST_P(SynchronisedNorm, MakesManyWorkersOne) {
  ResnetRun one("cpu", spec_of(8, nullptr));
  one.lift_above_zero();
  const double loss = one.step();

  const std::vector<Result> many = step_together(GetParam(), 8 / GetParam());

  double sum = 0.0;
  std::vector<float> gradients(many[0].gradients.size());
  for (std::size_t w = 0; w < many.size(); ++w) {
    sum += many[w].loss;
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] += many[w].gradients[i];
    EXPECT_EQ(many[w].statistics, many[0].statistics) << "worker " << w;
  }
  EXPECT_TRUE(test::within(sum, loss, 1e-4 * loss));
  EXPECT_TRUE(
      test::within(relative_difference(gradients, one.plain_gradients()), 0.0, 4.0 / std::sqrt(131072.0)));
  EXPECT_TRUE(test::within(relative_difference(many[0].statistics, one.step_statistics()), 0.0, 1e-5));
}

}  // namespace
}  // namespace flotilla
