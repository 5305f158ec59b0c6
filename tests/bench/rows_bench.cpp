// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/random.hpp"
#include "mpi/push_pull/push_pull_server.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"
#include "src/parameter_server/server/row_store.hpp"
#include "src/parameter_server/worker/row_exchange.hpp"

// A measurement, not a test: mpirun -n 2 rows_bench [rows of a step] [width] [rows of the table]. Rank 0
// works, the others serve. A row is counted once for pull and push together.

namespace flotilla {
namespace {

void serve(const mpi::Communicator& world, std::size_t width) {
  mpi::PushPullServer server(world, {0}, 0, {});
  const SparseTableSpec spec{.width = width, .rule = {.update = rules::Adagrad{}}};
  RowTables tables(std::span(&spec, 1));
  double busy = 0.0;
  std::int64_t step = 0;
  while (const auto request = server.next()) {
    const auto begin = std::chrono::steady_clock::now();
    tables.apply(std::span(&request->payload, 1), 0.01F, 1.0F, ++step);
    if (request->head.reply_bytes > 0) {
      const auto room = server.reply_room(0);
      tables.answer(request->payload, room);
      server.answer_payload(0, room);
    }
    server.release(*request);
    busy += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::printf("server %d: %zu rows, busy for %.2f s\n", world.rank(), tables[0].rows(), busy);
}

void work(const mpi::Communicator& world, std::size_t rows, std::size_t width, std::size_t table_rows) {
  std::vector<mpi::ServerShare> shares;
  for (int rank = 1; rank < world.size(); ++rank) shares.push_back({.rank = rank});
  mpi::PushPullWorker worker(world, shares, {});
  RowExchange exchange({width}, world.size() - 1);
  std::vector<std::uint64_t> keys(rows);
  std::vector<float> values(rows * width);
  Random random(1, random_data);
  std::vector<double> seconds;
  for (std::int64_t step = 0; step < 120; ++step) {
    for (auto& key : keys) key = random.below(table_rows);
    const auto begin = std::chrono::steady_clock::now();
    exchange.begin();
    exchange.pull(0, keys, values);
    worker.start_rows(2 * step, exchange.payloads());
    worker.wait();
    exchange.finish();
    exchange.begin();
    exchange.push(0, keys, values);
    worker.start_rows(2 * step + 1, exchange.payloads());
    worker.wait();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  worker.farewell();
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  const double median = *middle;
  const double fastest = std::ranges::min(seconds);
  const auto rate = [&](double time) { return static_cast<double>(rows) / time * 1e-6; };
  std::printf(
      "pull + push of %zu rows of %zu: %.3f ms, %.2f million rows/s (median of %zu); fastest %.3f ms, %.2f\n",
      rows, width, median * 1e3, rate(median), seconds.size(), fastest * 1e3, rate(fastest));
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  const flotilla::mpi::Environment environment(argc, argv);
  const auto world = flotilla::mpi::Communicator::world();
  const auto number = [&](int i, double otherwise) {
    return static_cast<std::size_t>(argc > i ? std::atof(argv[i]) : otherwise);
  };
  const std::size_t width = number(2, 10);
  if (world.rank() == 0) {
    flotilla::work(world, number(1, 26'000), width, number(3, 1e6));
  } else {
    flotilla::serve(world, width);
  }
  return 0;
}
