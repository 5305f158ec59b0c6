// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/push_pull/push_pull_server.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"

// A measurement, not a test: mpirun -n N measure_push_pull [MB [GBIT/S [KiB...]]]. Rank 0 serves, the others
// push and pull as often as they can; they do not wait for each other. Rates are of all together, both ways.
// With a rate between hosts only messages, in parts of so many KiB (0: in one), and what share they have of a
// wire that carries that much in both directions at once.

namespace flotilla::mpi {
namespace {

constexpr int rounds = 15;

double median_seconds(const std::function<void()>& once) {
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    once();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void measure(const Communicator& world, const char* name, std::size_t floats, std::size_t run,
             PushPullWires wires, double wire = 0.0) {
  ServerShare share{.rank = 0};
  for (std::size_t begin = 0; begin < floats; begin += run + (run < floats ? 16 : 0))
    share.runs.push_back({begin, std::min(begin + run, floats)});
  std::size_t values = 0;
  for (const auto& part : share.runs) values += part.end - part.begin;
  const int workers = world.size() - 1;
  if (world.rank() == 0) {
    std::vector<int> ranks(static_cast<std::size_t>(workers));
    std::iota(ranks.begin(), ranks.end(), 1);
    PushPullServer server(world, ranks, values, wires,
                          {.copies = wires.pull != Wire::float32, .parts = true});
    std::vector<float> own(values, 1.0F);
    const std::span<float> shared = server.shared_values();
    const std::span<float> parameters = shared.empty() ? std::span(own) : shared;
    while (const auto request = server.next()) {
      if (request->complete) server.release(*request);
      if (request->head.kind == RequestKind::farewell) continue;
      if (wires.pull == Wire::float32) {
        server.answer_in_place(request->worker, parameters, request->here);
      } else {
        server.answer(request->worker, parameters, request->here);
      }
    }
    return;
  }
  PushPullWorker worker(world, {share}, wires);
  std::vector<float> from(floats, 1.0F);
  std::vector<float> to(floats);
  const double seconds = median_seconds([&] {
    worker.start_push_pull({0, 1, 0.0}, from, to);
    worker.wait();
  });
  const double copy = median_seconds([&] { std::memcpy(to.data(), from.data(), floats * sizeof(float)); });
  if (world.rank() == 1) {
    const double pushed = workers * static_cast<double>(values * bytes_per_value(wires.push));
    if (wire > 0.0) {
      const double reached = pushed / (wire / 8 * 1e9) / seconds;
      std::printf("%-28s %7.1f MB: %8.3f ms, %.3f of the wire, both ways at once\n", name, pushed * 1e-6,
                  seconds * 1e3, reached);
      std::fflush(stdout);
      worker.farewell();
      return;
    }
    const double rate = 2.0 * workers * static_cast<double>(values * sizeof(float)) / seconds * 1e-9;
    const double limit = static_cast<double>(floats * sizeof(float)) / copy * 1e-9;
    std::printf("%-28s %7.1f MB: %8.3f ms, %7.3f GB/s, memcpy %6.2f GB/s, ratio %.2f\n", name,
                static_cast<double>(values * sizeof(float)) * 1e-6, seconds * 1e3, rate, limit, rate / limit);
  }
  worker.farewell();
}

void measure_all(std::size_t floats) {
  const auto world = Communicator::world();
  for (const bool shared : {false, true}) {
    if (world.rank() == 1) std::puts(shared ? "through shared memory" : "as messages");
    measure(world, "one run", floats, floats, {.shared_memory = shared});
    measure(world, "runs of 1,000,000", floats, 1'000'000, {.shared_memory = shared});
    measure(world, "runs of 10,000", floats, 10'000, {.shared_memory = shared});
    measure(world, "one run, float16", floats, floats,
            {.push = Wire::float16, .pull = Wire::float16, .shared_memory = shared});
  }
}

void measure_wire(std::size_t floats, double wire, const std::vector<double>& parts) {
  const auto world = Communicator::world();
  for (const double kb : parts) {
    const auto part = static_cast<std::size_t>(kb * 256);
    measure(world, cat("parts of ", kb, " KiB").c_str(), floats, floats, {.part_values = part}, wire);
  }
}

}  // namespace
}  // namespace flotilla::mpi

int main(int argc, char** argv) {
  const flotilla::mpi::Environment environment(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto floats =
      words.empty() ? std::size_t{25'000'000} : static_cast<std::size_t>(std::stod(words[0]) * 250'000);
  if (words.size() < 2) {
    flotilla::mpi::measure_all(floats);
    return 0;
  }
  std::vector<double> parts;
  for (std::size_t i = 2; i < words.size(); ++i) parts.push_back(std::stod(words[i]));
  if (parts.empty()) parts = {56.0, 0.0};
  flotilla::mpi::measure_wire(floats, std::stod(words[1]), parts);
  return 0;
}
