// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "mpi/push_pull/push_pull_server.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"
#include "src/parameter_server/server/row_store.hpp"
#include "src/parameter_server/worker/row_exchange.hpp"
#include "tests/support/allocation_count.hpp"

namespace flotilla {
namespace {

using Keys = std::vector<std::uint64_t>;
using Values = std::vector<float>;

const std::vector<std::size_t> widths = {1, 8, 10, 64};
constexpr float rate = 0.05F;

std::vector<SparseTableSpec> specs() {
  std::vector<SparseTableSpec> specs;
  for (const std::size_t width : widths)
    specs.push_back(
        {.width = width, .rule = {.update = rules::Adam{}}, .start = {.scale = 1.0F, .seed = width}});
  return specs;
}

/// What one worker does in a step: keys with repeats, or none, of each table.
struct Step {
  std::vector<Keys> pulled;
  std::vector<Keys> pushed;
  std::vector<Values> gradients;
};

Step step_of(std::int64_t step, int worker) {
  Random random(static_cast<std::uint64_t>(worker), random_data, static_cast<std::uint64_t>(step));
  Step result;
  for (const std::size_t width : widths) {
    Keys pulled(random.below(4) == 0 ? 0 : random.below(60));
    for (auto& key : pulled) key = random.below(200);
    Keys pushed(random.below(4) == 0 ? 0 : random.below(60));
    for (auto& key : pushed) key = random.below(250);
    Values gradients(pushed.size() * width);
    random.fill(gradients);
    for (float& value : gradients)
      if (value < 0.0005F) value = std::numeric_limits<float>::infinity();
    result.pulled.push_back(pulled);
    result.pushed.push_back(pushed);
    result.gradients.push_back(gradients);
  }
  return result;
}

/// The first ranks work, the others serve.
class Job {
 public:
  explicit Job(int workers) : world_(mpi::Communicator::world()), workers_(workers) {}

  bool is_server() const { return world_.rank() >= workers_; }
  int worker() const { return world_.rank(); }
  int servers() const { return world_.size() - workers_; }
  mpi::PushPullServer server() const {
    std::vector<int> ranks(static_cast<std::size_t>(workers_));
    std::iota(ranks.begin(), ranks.end(), 0);
    return mpi::PushPullServer(world_, ranks, 0, {});
  }
  mpi::PushPullWorker link() const {
    std::vector<mpi::ServerShare> shares;
    for (int rank = workers_; rank < world_.size(); ++rank) shares.push_back({.rank = rank});
    return mpi::PushPullWorker(world_, shares, {});
  }

 private:
  mpi::Communicator world_;
  int workers_;
};

/// Takes one request of every worker, applies them in the workers' order and answers all.
void serve_synchronously(mpi::PushPullServer server) {
  const auto all = specs();
  RowTables tables(all);
  std::vector<mpi::WorkerRequest> requests;
  std::int64_t step = 0;
  while (const auto next = server.next()) {
    if (next->head.kind != mpi::RequestKind::farewell) requests.push_back(*next);
    if (requests.empty() || static_cast<int>(requests.size()) < server.workers_left()) continue;
    std::ranges::sort(requests, {}, &mpi::WorkerRequest::worker);
    std::vector<std::span<const std::byte>> payloads;
    for (const auto& request : requests) payloads.push_back(request.payload);
    tables.apply(payloads, rate, 0.5F, ++step);
    for (const auto& request : requests) {
      if (request.head.reply_bytes > 0) {
        const auto room = server.reply_room(request.worker);
        tables.answer(request.payload, room);
        server.answer_payload(request.worker, room);
      }
      server.release(request);
    }
    requests.clear();
  }
}

/// Compares workers' steps over the wire with what one local table of each width computes from all of them.
void expect_local_bits(int workers) {
  const Job job(workers);
  if (job.is_server()) return serve_synchronously(job.server());
  auto link = job.link();
  RowExchange rows(widths, job.servers());
  std::vector<SparseTable> local;
  for (const SparseTableSpec& spec : specs()) local.emplace_back(spec);
  for (std::int64_t number = 1; number <= 100; ++number) {
    const Step mine = step_of(number, job.worker());
    std::vector<Values> arrived;
    for (std::size_t table = 0; table < widths.size(); ++table)
      arrived.emplace_back(mine.pulled[table].size() * widths[table]);
    rows.begin();
    for (std::size_t table = 0; table < widths.size(); ++table) {
      rows.push(table, mine.pushed[table], mine.gradients[table]);
      rows.pull(table, mine.pulled[table], arrived[table]);
    }
    link.start_rows(number, rows.payloads());
    link.wait();
    rows.finish();

    std::vector<Step> all;
    for (int worker = 0; worker < workers; ++worker) all.push_back(step_of(number, worker));
    for (std::size_t table = 0; table < widths.size(); ++table) {
      std::vector<RowGradients> parts;
      for (const Step& step : all) parts.push_back({step.pushed[table], step.gradients[table]});
      local[table].push(parts, rate, 0.5F, number);
      // The others' rows are made, too.
      for (const Step& step : all) {
        Values expected(step.pulled[table].size() * widths[table]);
        local[table].pull(step.pulled[table], expected);
        if (&step == &all[static_cast<std::size_t>(job.worker())]) {
          ASSERT_EQ(arrived[table], expected) << "step " << number << ", table " << table;
        }
      }
    }
  }
  link.farewell();
}

TEST(RowExchange, OneWorkerSeesTheBitsOfALocalTable) {
  expect_local_bits(1);
}

TEST(RowExchange, SeveralWorkersSeeTheBitsOfALocalTable) {
  expect_local_bits(mpi::Communicator::world().size() - 1);
}

TEST(RowExchange, LookingMakesNoRowAndAddingNeedsNoRule) {
  const Job job(1);
  if (job.is_server()) return serve_synchronously(job.server());
  auto link = job.link();
  RowExchange rows(widths, job.servers());
  const auto exchange = [&] {
    link.start_rows(1, rows.payloads());
    link.wait();
    rows.finish();
    rows.begin();
  };
  const Keys keys = {1, 2, 3, 4, 5};
  const Values ones(5 * 8, 1.0F);
  Values before(ones.size());
  Values after(ones.size());

  // No row is there, so that nothing is added.
  rows.pull_without_insert(1, keys, before);
  rows.add(1, keys, ones);
  exchange();
  rows.pull(1, keys, after);
  exchange();
  EXPECT_EQ(after, before);
  rows.add(1, keys, ones);
  rows.pull(1, keys, after);
  exchange();

  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i], before[i] + 1.0F);
  link.farewell();
}

TEST(RowExchange, NothingIsAllocatedOnceRequestsHaveBeenAsLarge) {
  const Job job(1);
  if (job.is_server()) return serve_synchronously(job.server());
  auto link = job.link();
  RowExchange rows(widths, job.servers());
  Keys keys(1000);
  std::iota(keys.begin(), keys.end(), 0);
  Values values(1000 * 64);
  std::int64_t after_first = 0;

  for (std::size_t step = 1; step < 10; ++step) {
    rows.begin();
    // Other keys: shares of servers differ by little, so less is asked for.
    const std::size_t some = step == 1 ? 1000 : 500;
    for (auto& key : keys) key += 1000;
    rows.pull(3, std::span(keys).first(some), std::span(values).first(some * 64));
    link.start_rows(static_cast<std::int64_t>(step), rows.payloads());
    link.wait();
    rows.finish();
    if (step == 1) after_first = test::allocations_of_this_thread();
  }

  EXPECT_EQ(test::allocations_of_this_thread(), after_first);
  link.farewell();
}

TEST(RowExchange, HalfWiresHalveRowsBothWays) {
  const auto sent = [](mpi::Wire wire) {
    RowExchange rows(widths, 2, wire);
    rows.begin();
    Keys keys(1000);
    std::iota(keys.begin(), keys.end(), 0);
    const Values values(1000 * 64, 1.0F);
    Values back(values.size());
    rows.push(3, keys, values);
    rows.pull(3, keys, back);
    std::size_t bytes = 0;
    for (const mpi::Payload& payload : rows.payloads()) bytes += payload.out.size() + payload.back.size();
    return bytes;
  };
  constexpr std::size_t heads = 2 * 2 * 16;
  constexpr std::size_t keys = 2 * 1000 * 8;

  EXPECT_EQ(sent(mpi::Wire::float32), heads + keys + 2 * 1000 * 64 * 4);
  EXPECT_EQ(sent(mpi::Wire::float16), heads + keys + 2 * 1000 * 64 * 2);
  EXPECT_EQ(sent(mpi::Wire::bfloat16), heads + keys + 2 * 1000 * 64 * 2);
}

TEST(RowExchange, ChecksSizes) {
  RowExchange rows(widths, 2);
  Values values(10);

  EXPECT_THROW(rows.pull(1, Keys{1}, values), InternalError);
  EXPECT_THROW(rows.push(1, Keys{1}, values), InternalError);
  EXPECT_THROW(rows.push(4, Keys{1}, values), std::out_of_range);
}

}  // namespace
}  // namespace flotilla
