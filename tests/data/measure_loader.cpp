// SPDX-License-Identifier: Apache-2.0
// measure_loader IMAGES LABELS [THREADS]: what reading MNIST costs the loader thread and the training thread.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <vector>

#include "kernels/trace.hpp"
#include "src/data/loader.hpp"

namespace flotilla {
namespace {

double median_us(std::vector<std::int64_t>& times_ns) {
  std::nth_element(times_ns.begin(), times_ns.begin() + std::ssize(times_ns) / 2, times_ns.end());
  return static_cast<double>(times_ns[times_ns.size() / 2]) * 1e-3;
}

class Times final : public trace::Sink {
 public:
  void span(const char* /*name*/, std::int64_t begin_ns, std::int64_t end_ns) override {
    if (times_ns.size() < times_ns.capacity()) times_ns.push_back(end_ns - begin_ns);
  }
  std::vector<std::int64_t> times_ns;
};

/// Takes `batches` batches, working `work_us` between them as a training step would.
void measure(const Dataset& data, int threads, int work_us) {
  constexpr int batches = 4000;
  const Sampler sampler(1, {.samples = data.size(), .workers = 1, .batch = 64});
  std::vector<Times> sinks(static_cast<std::size_t>(std::max(threads, 1)));
  for (Times& sink : sinks) sink.times_ns.reserve(2 * batches);
  if (threads == 0) trace::record_this_thread(&sinks[0]);
  std::vector<std::int64_t> next_ns;
  next_ns.reserve(batches);
  const auto sink = [&](int thread) { return &sinks[static_cast<std::size_t>(thread)]; };
  const auto loader =
      make_training_loader(data, sampler, 0, {}, {.threads = threads, .prefetch = 4, .sink = sink});
  const std::int64_t begin = trace::now_ns();
  for (int i = 0; i < batches; ++i) {
    const std::int64_t before = trace::now_ns();
    loader->next();
    const std::int64_t after = trace::now_ns();
    next_ns.push_back(after - before);
    while (trace::now_ns() - after < work_us * 1000) {
    }
  }
  const double total_us = static_cast<double>(trace::now_ns() - begin) * 1e-3;
  const double wait_us = static_cast<double>(loader->wait_ns()) * 1e-3;
  const double mean_us =
      static_cast<double>(std::accumulate(next_ns.begin(), next_ns.end(), std::int64_t{0})) * 1e-3 / batches;
  trace::record_this_thread(nullptr);
  std::printf(
      "threads %d, work %4d us: reading %6.2f us, next() %6.2f us (medians), next() %6.2f waited %6.2f, all "
      "%7.2f us a batch\n",
      threads, work_us, median_us(sinks[0].times_ns), median_us(next_ns), mean_us, wait_us / batches,
      total_us / batches);
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: measure_loader IMAGES LABELS\n");
    return 2;
  }
  try {
    const auto data =
        flotilla::open_dataset({}, {.given = true, .images = argv[1], .labels = argv[2]}, 10, 1);
    std::printf("%s\n", data->description().c_str());
    for (int round = 0; round < 3; ++round) {
      flotilla::measure(*data, 0, 0);
      flotilla::measure(*data, 1, 0);
      flotilla::measure(*data, 1, 300);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
