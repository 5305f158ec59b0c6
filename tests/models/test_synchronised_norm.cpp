// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <thread>

#include "tests/models/resnet_support.hpp"

namespace flotilla {
namespace {

using test::relative_difference;
using test::ResnetRun;

/// Workers that are threads of this process.
class Threads {
 public:
  explicit Threads(int workers) : workers_(workers), barrier_(workers) {}

  class Exchange : public WorkerExchange {
   public:
    Exchange(Threads& threads, int worker) : threads_(threads), worker_(worker) {}
    int workers() const override { return threads_.workers_; }
    void all_gather(std::span<const double> mine, std::span<double> all) override {
      threads_.meet([&] { threads_.values_.resize(all.size()); }, worker_ == 0);
      std::copy(mine.begin(), mine.end(),
                threads_.values_.begin() + worker_ * static_cast<std::ptrdiff_t>(mine.size()));
      threads_.meet([] {}, false);
      std::copy(threads_.values_.begin(), threads_.values_.end(), all.begin());
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

ResnetSpec spec_of(std::int64_t batch, WorkerExchange* exchange) {
  return {.depth = 18, .input = {batch, 3, 64, 64}, .classes = 10, .exchange = exchange};
}

struct Result {
  double loss = 0.0;
  std::vector<float> gradients;
  std::vector<float> statistics;
};

/// One step of every worker with its images; `batches` may differ.
std::vector<Result> step_together(const std::vector<std::int64_t>& batches) {
  Threads threads(static_cast<int>(batches.size()));
  std::vector<Result> results(batches.size());
  std::vector<std::thread> workers;
  std::int64_t first = 0;
  for (std::size_t w = 0; w < batches.size(); ++w) {
    workers.emplace_back([&, w, first] {
      Threads::Exchange exchange(threads, static_cast<int>(w));
      ResnetRun run("cpu", spec_of(batches[w], &exchange), first);
      results[w].loss = run.step(0.125F);
      results[w].gradients = run.plain_gradients();
      results[w].statistics = run.step_statistics();
    });
    first += batches[w];
  }
  for (std::thread& worker : workers) worker.join();
  return results;
}

class SynchronisedNorm : public testing::TestWithParam<std::vector<std::int64_t>> {};
INSTANTIATE_TEST_SUITE_P(Batches, SynchronisedNorm,
                         testing::Values(std::vector<std::int64_t>{4, 4},
                                         std::vector<std::int64_t>{2, 2, 2, 2},
                                         std::vector<std::int64_t>{5, 3}));

// Sums in another order: rounding, which 18 layers enlarge, and which lets a few ReLUs of 10⁷ change sides:
// some 10⁻³ of the gradient.
TEST_P(SynchronisedNorm, MakesManyWorkersOne) {
  ResnetRun one("cpu", spec_of(8, nullptr));
  const double loss = one.step();

  const std::vector<Result> many = step_together(GetParam());

  double sum = 0.0;
  std::vector<float> gradients(many[0].gradients.size());
  for (std::size_t w = 0; w < many.size(); ++w) {
    sum += many[w].loss;
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] += many[w].gradients[i];
    EXPECT_EQ(many[w].statistics, many[0].statistics) << "worker " << w;
  }
  EXPECT_NEAR(sum, loss, 1e-4 * loss);
  EXPECT_LT(relative_difference(gradients, one.plain_gradients()), 2e-2);
  EXPECT_LT(relative_difference(many[0].statistics, one.step_statistics()), 1e-5);
}

}  // namespace
}  // namespace flotilla
