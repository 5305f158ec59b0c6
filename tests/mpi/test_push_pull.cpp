// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "tests/mpi/push_pull_job.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla::mpi {
namespace {

constexpr float padding = -7.0F;
constexpr Sharing all_sharings[] = {Sharing::one_run_each, Sharing::many_runs, Sharing::all_to_the_first};

/// Adds what all workers push, in their order, and answers all at once.
void serve_synchronously(PushPullServer& server, std::size_t values) {
  std::vector<float> parameters(values);
  std::vector<WorkerRequest> pushes;
  while (const auto request = server.next()) {
    if (request->head.kind != RequestKind::farewell) pushes.push_back(*request);
    if (pushes.empty() || static_cast<int>(pushes.size()) < server.workers_left()) continue;
    std::ranges::sort(pushes, {}, &WorkerRequest::worker);
    for (const WorkerRequest& push : pushes) {
      EXPECT_EQ(push.head.step, pushes.front().head.step);
      EXPECT_EQ(push.head.batches, 3);
      for (std::size_t i = 0; i < values; ++i) parameters[i] += push.values[i];
      server.release(push);
    }
    for (const WorkerRequest& push : pushes) server.answer(push.worker, parameters);
    pushes.clear();
  }
}

/// Adds each push when it comes.
void serve_at_once(PushPullServer& server, std::size_t values) {
  std::vector<float> parameters(values);
  while (const auto request = server.next()) {
    for (std::size_t i = 0; i < request->values.size(); ++i) parameters[i] += request->values[i];
    server.release(*request);
    const RequestKind kind = request->head.kind;
    if (kind == RequestKind::pull || kind == RequestKind::push_pull)
      server.answer(request->worker, parameters);
  }
}

float gradient(int worker, std::size_t i) {
  return static_cast<float>((worker + 1) * (static_cast<int>(i % 7) - 3));
}

using PushPull = ServersAndWorkers;

TEST_F(PushPull, SumsOfAllWorkersAreExact) {
  for (const Sharing sharing : all_sharings) {
    for (const auto& [wire, shared] : {std::pair(Wire::float32, false), std::pair(Wire::float32, true),
                                       std::pair(Wire::float16, false), std::pair(Wire::float16, true),
                                       std::pair(Wire::bfloat16, false), std::pair(Wire::bfloat16, true)}) {
      for (const std::size_t floats : {std::size_t{1}, std::size_t{1001}, std::size_t{100'003}}) {
        const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
          std::vector<float> gradients(floats);
          for (std::size_t i = 0; i < floats; ++i) gradients[i] = gradient(job.index(), i);
          std::vector<float> parameters(floats, padding);
          for (int step = 1; step <= 4; ++step) {
            worker.start_push_pull({step, 3, 0.0}, gradients, parameters);
            worker.wait();

            std::vector<float> expected(floats, padding);
            const int all = job.workers() * (job.workers() + 1) / 2;
            for_each_value(shares, [&](std::size_t i) {
              expected[i] = static_cast<float>(step * all) * gradient(0, i);
            });
            ASSERT_EQ(parameters, expected) << step;
          }
        };

        job.run(sharing, floats, {.push = wire, .pull = wire, .shared_memory = shared}, {},
                serve_synchronously, work);
      }
    }
  }
}

/// Adds what all workers have pushed so far, and sends it back before the rest is here.
void serve_in_parts(PushPullServer& server, std::size_t values, Wire pull) {
  std::vector<float> parameters(values);
  const WorkerRequest none{.worker = -1};
  std::vector<WorkerRequest> pushes(static_cast<std::size_t>(server.workers_left()), none);
  std::size_t done = 0;
  int early = 0;
  while (const auto request = server.next()) {
    if (request->head.kind == RequestKind::farewell) continue;
    WorkerRequest& push = pushes[static_cast<std::size_t>(request->worker)];
    EXPECT_GE(request->here, push.here);
    push = *request;
    const std::size_t here = std::ranges::min(pushes, {}, &WorkerRequest::here).here;
    for (const WorkerRequest& other : pushes)
      for (std::size_t i = done; i < here; ++i) parameters[i] += other.values[i];
    done = here;
    const bool complete = std::ranges::all_of(pushes, [](const auto& other) { return other.worker >= 0; }) &&
                          std::ranges::all_of(pushes, &WorkerRequest::complete);
    if (!complete && here > 0 && here < values) ++early;
    if (!complete && (here == 0 || here == values)) continue;
    for (const WorkerRequest& other : pushes) {
      if (complete) server.release(other);
      if (pull == Wire::float32) {
        server.answer_in_place(other.worker, parameters, here);
      } else {
        server.answer(other.worker, parameters, here);
      }
    }
    if (!complete) continue;
    std::ranges::fill(pushes, none);
    done = 0;
  }
  if (values > 10'000) {
    EXPECT_GT(early, 0);
  }
}

TEST_F(PushPull, SumsOfPartsAreExact) {
  for (const Sharing sharing : all_sharings) {
    for (const Wire wire : {Wire::float32, Wire::float16}) {
      for (const std::size_t floats : {std::size_t{1}, std::size_t{1001}, std::size_t{100'003}}) {
        const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
          std::vector<float> gradients(floats);
          for (std::size_t i = 0; i < floats; ++i) gradients[i] = gradient(job.index(), i);
          for (int step = 1; step <= 4; ++step) {
            std::vector<float> parameters(floats, padding);
            worker.start_push_pull({step, 3, 0.0}, gradients, parameters);
            worker.wait();

            std::vector<float> expected(floats, padding);
            const int all = job.workers() * (job.workers() + 1) / 2;
            for_each_value(shares, [&](std::size_t i) {
              expected[i] = static_cast<float>(step * all) * gradient(0, i);
            });
            ASSERT_EQ(parameters, expected) << step;
          }
        };

        job.run(
            sharing, floats, {.push = wire, .pull = wire, .part_values = 1000}, {.parts = true},
            [&](PushPullServer& server, std::size_t values) { serve_in_parts(server, values, wire); }, work);
      }
    }
  }
}

TEST_F(PushPull, AWorkersRequestsComeInItsOrder) {
  constexpr int rounds = 40;
  for (const std::size_t floats : {std::size_t{60}, std::size_t{300'000}}) {
    const auto serve = [&](PushPullServer& server, std::size_t values) {
      std::vector<std::int64_t> next(static_cast<std::size_t>(job.workers()));
      std::vector<float> parameters(values);
      while (const auto request = server.next()) {
        if (request->head.kind == RequestKind::farewell) continue;
        EXPECT_EQ(request->head.step, next[static_cast<std::size_t>(request->worker)]++);
        EXPECT_EQ(request->head.kind == RequestKind::pull, request->head.step % 3 == 2);
        for (std::size_t i = 0; i < request->values.size(); ++i) parameters[i] += request->values[i];
        server.release(*request);
        server.answer(request->worker, parameters);
      }
      EXPECT_EQ(next, std::vector<std::int64_t>(next.size(), 3 * rounds));
    };
    const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
      // Each worker adds to a value of its own, and sees what it added.
      const std::size_t mine = shares.back().runs.front().begin + static_cast<std::size_t>(job.index());
      std::vector<float> gradients(floats);
      std::vector<float> parameters(floats);
      gradients[mine] = 1.0F;
      for (int step = 0; step < 3 * rounds; ++step) {
        if (step % 3 == 2) {
          worker.start_pull(step, parameters);
        } else {
          worker.start_push_pull({step, 1, 0.0}, gradients, parameters);
        }
        worker.wait();
        if (step % 3 == 2) {
          ASSERT_EQ(parameters[mine], static_cast<float>((step + 1) / 3 * 2));
        }
      }
    };

    job.run(Sharing::one_run_each, floats, {}, {}, serve, work);
  }
}

TEST_F(PushPull, AStoppedWorkerDelaysNoOther) {
  constexpr std::size_t floats = 600'000;  // Too many to be in flight while no rank progresses them.
  for (const auto& [shared, part] : {std::pair(false, 0U), std::pair(true, 0U), std::pair(false, 50'000U)}) {
    const test::TemporaryFolder folder;  // Each rank has one; worker 0's is the place to meet.
    const std::string meeting = world.all_gather(folder.path())[1];
    const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& /*shares*/) {
      std::vector<float> gradients(floats, 1.0F);
      std::vector<float> parameters(floats);
      if (job.index() == 0) {
        worker.start_push_pull({0, 1, 0.0}, gradients, parameters);
        for (int other = 1; other < job.workers(); ++other)
          wait_for_file(meeting + "/done" + std::to_string(other));
        worker.wait();
        return;
      }
      // The servers must not wait for worker 0's values, nor for it to take its answer.
      for (int step = 0; step < 20; ++step) {
        worker.start_push_pull({step, 1, 0.0}, gradients, parameters);
        worker.wait();
        EXPECT_GE(parameters[0], static_cast<float>(step + 1));
      }
      std::ofstream(meeting + "/done" + std::to_string(job.index())) << "done";
    };

    job.run(Sharing::one_run_each, floats, {.shared_memory = shared, .part_values = part}, {}, serve_at_once,
            work);
    world.barrier();  // The folder of worker 0 stays until all are done.
  }
}

TEST_F(PushPull, NothingIsAllocatedAfterTheFirstStep) {
  for (const auto& [wire, shared] : {std::pair(Wire::float32, false), std::pair(Wire::float32, true),
                                     std::pair(Wire::float16, false), std::pair(Wire::float16, true)}) {
    const auto serve = [&](PushPullServer& server, std::size_t values) {
      std::vector<float> parameters(values);
      std::vector<WorkerRequest> pushes;
      std::int64_t after_first = -1;
      while (const auto request = server.next()) {
        if (request->head.kind != RequestKind::push_pull) continue;
        // In the first step all workers' buffers are needed at once.
        pushes.push_back(*request);
        if (request->head.step == 0 && static_cast<int>(pushes.size()) < job.workers()) continue;
        for (const WorkerRequest& push : pushes) {
          server.release(push);
          server.answer(push.worker, parameters);
        }
        pushes.clear();
        if (after_first < 0) after_first = test::allocations_of_this_thread();
      }
      EXPECT_EQ(test::allocations_of_this_thread(), after_first);
    };
    const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& /*shares*/) {
      std::vector<float> arena(10'000);
      std::int64_t after_first = 0;
      for (int step = 0; step < 10; ++step) {
        worker.start_push_pull({step, 1, 0.0}, arena, arena);
        worker.wait();
        job.same_role().barrier();
        if (step == 0) after_first = test::allocations_of_this_thread();
      }
      EXPECT_EQ(test::allocations_of_this_thread(), after_first);
    };

    job.run(Sharing::many_runs, 10'000,
            {.push = wire, .pull = wire, .shared_memory = shared, .part_values = 1000}, {}, serve, work);
  }
}

TEST_F(PushPull, WorkersReadSharedValuesInPlace) {
  constexpr std::size_t floats = 5000;
  const auto serve = [&](PushPullServer& server, std::size_t values) {
    const std::span<float> parameters = server.shared_values();
    ASSERT_EQ(parameters.size(), values);
    std::vector<WorkerRequest> pushes;
    while (const auto request = server.next()) {
      if (request->head.kind != RequestKind::push_pull) continue;
      EXPECT_THROW(server.answer(request->worker, parameters), InternalError);
      pushes.push_back(*request);
      if (static_cast<int>(pushes.size()) < job.workers()) continue;
      for (const WorkerRequest& push : pushes)
        for (std::size_t i = 0; i < values; ++i) parameters[i] += push.values[i];
      for (const WorkerRequest& push : pushes) {
        server.release(push);
        server.answer_in_place(push.worker, parameters);
      }
      pushes.clear();
    }
  };
  const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& shares) {
    std::vector<float> gradients(floats);
    for (std::size_t i = 0; i < floats; ++i) gradients[i] = gradient(0, i);
    std::vector<float> parameters(floats, padding);
    for (int step = 1; step <= 20; ++step) {
      worker.start_push_pull({step, 1, 0.0}, gradients, parameters);
      worker.wait();

      for_each_value(shares, [&](std::size_t i) {
        ASSERT_EQ(parameters[i], static_cast<float>(step * job.workers()) * gradients[i]) << step;
      });
    }
  };

  for (const Sharing sharing : {Sharing::one_run_each, Sharing::many_runs})
    job.run(sharing, floats, {.shared_memory = true}, {.copies = false}, serve, work);
}

TEST_F(PushPull, WhatCannotBeSharedSaysWhatToSet) {
  if (job.is_server()) {
    EXPECT_THROW(PushPullServer(world, {1}, 100, {.shared_memory = true}), UserError);
    return;
  }
  const std::size_t most = largest_share;
  std::vector<ServerShare> shares(256, {.rank = 0, .runs = {{0, most}}});
  EXPECT_TRUE(test::mentions(
      test::error_of([&] { const PushPullWorker worker(world, shares, {.shared_memory = true}); }),
      {"server.shared_memory = false"}));
}

TEST_F(PushPull, AServerKnowsWhoIsLeft) {
  const auto serve = [&](PushPullServer& server, std::size_t /*values*/) {
    int left = job.workers();
    EXPECT_EQ(server.workers_left(), left);
    while (const auto request = server.next()) {
      EXPECT_EQ(request->head.kind, RequestKind::farewell);
      EXPECT_EQ(server.workers_left(), --left);
    }
    EXPECT_EQ(left, 0);
  };

  job.run(Sharing::many_runs, 100, {}, {}, serve, [](PushPullWorker&, const auto&) {});
}

TEST_F(PushPull, ContractsAreChecked) {
  const auto serve = [&](PushPullServer& server, std::size_t values) {
    const std::vector<float> parameters(values);
    EXPECT_THROW(server.answer(0, parameters), InternalError);
    serve_at_once(server, values);
  };
  const auto work = [&](PushPullWorker& worker, const std::vector<ServerShare>& /*shares*/) {
    std::vector<float> arena(100);
    EXPECT_THROW(worker.start_pull(0, std::span(arena).first(50)), InternalError);
    worker.start_pull(0, arena);
    EXPECT_THROW(worker.start_pull(1, arena), InternalError);
    worker.wait();
    EXPECT_TRUE(worker.missing_servers().empty());
  };

  job.run(Sharing::all_to_the_first, 100, {}, {}, serve, work);
}

}  // namespace
}  // namespace flotilla::mpi
