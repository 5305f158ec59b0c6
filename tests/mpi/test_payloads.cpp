// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "tests/mpi/push_pull_job.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla::mpi {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t floats = 1001;

std::byte sample(std::int64_t step, int worker, int server, std::size_t i) {
  return static_cast<std::byte>(step * 31 + worker * 7 + server * 3 + static_cast<std::int64_t>(i % 251));
}

Bytes payload_of(std::int64_t step, int worker, int server, std::size_t bytes) {
  Bytes payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload[i] = sample(step, worker, server, i);
  return payload;
}

/// What a step of the random exchange carries to and from one server. All sides compute it.
struct Plan {
  RequestKind kind;
  std::size_t out;
  std::size_t back;
};

Plan plan_of(std::int64_t step, int worker, int server) {
  constexpr std::size_t sizes[] = {0, 1, 100, 5000, 300'000};
  Random kinds(1, random_data, static_cast<std::uint64_t>(step));
  const auto kind = static_cast<RequestKind>(kinds.below(3));
  Random random(2 + static_cast<std::uint64_t>(worker) * 100 + static_cast<std::uint64_t>(server),
                random_data, static_cast<std::uint64_t>(step));
  const std::size_t out = sizes[random.below(5)];
  const std::size_t back = sizes[random.below(5)];
  return {.kind = kind, .out = out, .back = back};
}

/// Answers every request at once; values are the pushed ones times two, or ones.
void serve_plans(const Job& job, PushPullServer& server, std::size_t values) {
  std::vector<std::int64_t> next(static_cast<std::size_t>(job.workers()));
  std::vector<float> answer(values, 1.0F);
  while (const auto request = server.next()) {
    if (request->head.kind == RequestKind::farewell) continue;
    const std::int64_t step = next[static_cast<std::size_t>(request->worker)]++;
    const Plan plan = plan_of(step, request->worker, job.index());
    EXPECT_EQ(request->head.step, step);
    EXPECT_EQ(request->head.kind, plan.kind);
    EXPECT_TRUE(
        std::ranges::equal(request->payload, payload_of(step, request->worker, job.index(), plan.out)));
    if (request->head.pushes()) {
      ASSERT_EQ(request->values.size(), values);
      for (std::size_t i = 0; i < values; ++i) answer[i] = 2.0F * request->values[i];
    }
    server.release(*request);
    if (plan.back > 0) {
      const Bytes back = payload_of(-step, request->worker, job.index(), plan.back);
      if (step % 2 == 0) {
        std::ranges::copy(back, server.reply_room(request->worker).begin());
        server.answer_payload(request->worker, server.reply_room(request->worker));
      } else {
        server.answer_payload(request->worker, back);
      }
    }
    if (request->head.pulls()) server.answer(request->worker, answer);
  }
  EXPECT_EQ(next, std::vector<std::int64_t>(next.size(), 120));
}

using Payloads = ServersAndWorkers;

TEST_F(Payloads, TravelBesideValuesAndWithoutThem) {
  for (const bool shared : {false, true}) {
    const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
      std::vector<float> from(floats), to(floats);
      std::vector<Bytes> out(shares.size()), back(shares.size());
      std::vector<Payload> payloads(shares.size());
      for (std::int64_t step = 0; step < 120; ++step) {
        RequestKind kind = RequestKind::rows;
        for (std::size_t s = 0; s < shares.size(); ++s) {
          const Plan plan = plan_of(step, job.index(), static_cast<int>(s));
          kind = plan.kind;
          out[s] = payload_of(step, job.index(), static_cast<int>(s), plan.out);
          back[s].assign(plan.back, std::byte{0});
          payloads[s] = {.out = out[s], .back = back[s]};
        }
        std::ranges::fill(from, static_cast<float>(step));
        switch (kind) {
          case RequestKind::pull: worker.start_pull(step, to, payloads); break;
          case RequestKind::push_pull: worker.start_push_pull({step, 1, 0.0}, from, to, payloads); break;
          default: worker.start_rows(step, payloads);
        }
        worker.wait();

        EXPECT_TRUE(worker.missing_servers().empty());
        if (kind == RequestKind::push_pull) {
          ASSERT_EQ(to, std::vector<float>(floats, 2.0F * static_cast<float>(step))) << step;
        }
        for (std::size_t s = 0; s < shares.size(); ++s)
          ASSERT_EQ(back[s], payload_of(-step, job.index(), static_cast<int>(s), back[s].size())) << step;
      }
    };

    job.run(
        Sharing::one_run_each, floats, {.shared_memory = shared}, {},
        [&](PushPullServer& server, std::size_t values) { serve_plans(job, server, values); }, work);
  }
}

TEST_F(Payloads, AWorkerStoppedWhileItSendsDelaysNoOther) {
  const test::TemporaryFolder folder;  // Each rank has one; worker 0's is the place to meet.
  const std::string meeting = world.all_gather(folder.path())[1];
  constexpr std::size_t large = 4'000'000;  // Too many to be in flight while no rank progresses them.
  const auto serve = [&](PushPullServer& server, std::size_t) {
    while (const auto request = server.next()) {
      server.release(*request);
      if (request->head.reply_bytes == 0) continue;
      std::ranges::copy(request->payload.first(server.reply_room(request->worker).size()),
                        server.reply_room(request->worker).begin());
      server.answer_payload(request->worker, server.reply_room(request->worker));
    }
  };
  const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
    const Bytes out = payload_of(0, job.index(), 0, large);
    std::vector<Bytes> back(shares.size(), Bytes(large));
    std::vector<Payload> payloads;
    for (Bytes& bytes : back) payloads.push_back({.out = out, .back = bytes});
    if (job.index() == 0) {
      worker.start_rows(0, payloads);
      for (int other = 1; other < job.workers(); ++other)
        wait_for_file(meeting + "/done" + std::to_string(other));
      worker.wait();
    } else {
      for (int step = 0; step < 5; ++step) {
        worker.start_rows(step, payloads);
        worker.wait();
      }
      std::ofstream(meeting + "/done" + std::to_string(job.index())) << "done";
    }
    EXPECT_EQ(back.front(), out);
  };

  job.run(Sharing::one_run_each, floats, {}, {}, serve, work);
  world.barrier();  // The folder of worker 0 stays until all are done.
}

TEST_F(Payloads, StayUntilTheyAreReleased) {
  const auto serve = [&](PushPullServer& server, std::size_t) {
    std::vector<std::optional<WorkerRequest>> held(static_cast<std::size_t>(job.workers()));
    std::vector<int> taken(held.size());
    while (const auto request = server.next()) {
      const auto worker = static_cast<std::size_t>(request->worker);
      if (request->head.kind == RequestKind::farewell) continue;
      EXPECT_FALSE(held[worker]) << "a request came into the buffer of one that is not released";
      EXPECT_EQ(request->head.step, taken[worker]++);
      held[worker] = request;
      // The worker's next request is on its way: it must wait, and leave this one's payload alone.
      for (int look = 0; look < 100; ++look) {
        const auto other = server.poll();
        if (!other || other->head.kind == RequestKind::farewell) continue;
        const auto its_worker = static_cast<std::size_t>(other->worker);
        EXPECT_FALSE(held[its_worker]);
        EXPECT_EQ(other->head.step, taken[its_worker]++);
        held[its_worker] = other;
      }
      for (auto& each : held) {
        if (!each) continue;
        EXPECT_TRUE(std::ranges::equal(each->payload, payload_of(each->head.step, each->worker, 0, 3000)));
        server.release(*each);
        each.reset();
      }
    }
    EXPECT_EQ(taken, std::vector<int>(taken.size(), 50));
  };
  const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
    for (int step = 0; step < 50; ++step) {
      const Bytes out = payload_of(step, job.index(), 0, 3000);
      worker.start_rows(step, std::vector<Payload>(shares.size(), Payload{.out = out, .back = {}}));
      worker.wait();
    }
  };

  job.run(Sharing::one_run_each, floats, {}, {}, serve, work);
}

TEST_F(Payloads, NothingIsAllocatedOnceTheyHaveBeenAsLarge) {
  const auto serve = [&](PushPullServer& server, std::size_t) {
    std::vector<WorkerRequest> requests;
    std::int64_t after_first = -1;
    while (const auto request = server.next()) {
      if (request->head.reply_bytes == 0) continue;
      // In the first step all workers' buffers are needed at once.
      requests.push_back(*request);
      if (request->head.step == 0 && static_cast<int>(requests.size()) < job.workers()) continue;
      for (const WorkerRequest& each : requests)
        server.answer_payload(each.worker, server.reply_room(each.worker));
      for (const WorkerRequest& each : requests) server.release(each);
      requests.clear();
      if (after_first < 0) after_first = test::allocations_of_this_thread();
    }
    EXPECT_EQ(test::allocations_of_this_thread(), after_first);
  };
  const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
    std::vector<Bytes> bytes(shares.size(), Bytes(10'000));
    std::vector<Payload> payloads(shares.size());
    std::int64_t after_first = 0;
    for (std::size_t step = 0; step < 10; ++step) {
      for (std::size_t s = 0; s < shares.size(); ++s)
        payloads[s] = {.out = std::span(bytes[s]).first(10'000 - step),
                       .back = std::span(bytes[s]).last(10'000 - step)};
      worker.start_rows(static_cast<std::int64_t>(step), payloads);
      worker.wait();
      job.same_role().barrier();
      if (step == 0) after_first = test::allocations_of_this_thread();
    }
    EXPECT_EQ(test::allocations_of_this_thread(), after_first);
  };

  job.run(Sharing::one_run_each, floats, {}, {}, serve, work);
}

TEST_F(Payloads, ContractsAreChecked) {
  const auto serve = [&](PushPullServer& server, std::size_t) {
    EXPECT_THROW(server.answer_payload(0, Bytes(3)), InternalError);
    while (const auto request = server.next()) {
      server.release(*request);
      if (request->head.kind == RequestKind::farewell) continue;
      EXPECT_THROW(server.release(*request), InternalError);
      EXPECT_THROW(server.answer_payload(request->worker, Bytes(2)), InternalError);
      server.answer_payload(request->worker, Bytes(3));
      EXPECT_THROW(server.answer_payload(request->worker, Bytes(3)), InternalError);
    }
  };
  const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
    std::vector<Bytes> back(shares.size(), Bytes(3));
    std::vector<Payload> payloads;
    for (Bytes& bytes : back) payloads.push_back({.out = bytes, .back = bytes});
    EXPECT_THROW(worker.start_rows(0, std::vector<Payload>(shares.size() + 1)), InternalError);
    Payload huge;
    huge.out = {back[0].data(), largest_payload + 1};
    EXPECT_THROW(worker.start_rows(0, std::vector<Payload>(shares.size(), huge)), InternalError);
    worker.start_rows(0, payloads);
    worker.wait();
  };

  job.run(Sharing::one_run_each, floats, {}, {}, serve, work);
}

}  // namespace
}  // namespace flotilla::mpi
