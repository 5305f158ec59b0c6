// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/mpi/push_pull_job.hpp"
#include "tests/support/mpi_calls.hpp"
#include "tests/support/temporary_folder.hpp"

// A server of many workers: rank 0, and all others.

namespace flotilla::mpi {
namespace {

constexpr std::size_t part = 2000;
constexpr std::size_t values = 16 * part;  // More parts than are in flight at a time.
const PushPullWires wires{.part_values = part};

class ManyWorkers : public OnAllRanks {
 protected:
  /// Collective. Rank 0 serves, the other ranks work.
  void run(const std::function<void(PushPullServer&)>& serve,
           const std::function<void(PushPullWorker&)>& work) const {
    if (world.is_root()) {
      std::vector<int> ranks(static_cast<std::size_t>(workers));
      std::iota(ranks.begin(), ranks.end(), 1);
      PushPullServer server(world, ranks, values, wires);
      serve(server);
    } else {
      PushPullWorker worker(world, {{.rank = 0, .runs = {{0, values}}}}, wires);
      work(worker);
      worker.farewell();
    }
  }

  const int workers = world.size() - 1;
  const Communicator role{world.split(world.is_root() ? 0 : 1)};
};

TEST_F(ManyWorkers, APollAsksMpiAboutAFixedNumberOfRequests) {
  const auto serve = [&](PushPullServer& server) {
    const std::vector<float> parameters(values, 2.0F);
    std::vector<WorkerRequest> pushes;
    test::mpi_calls() = {};
    while (const auto request = server.next()) {
      if (request->head.kind != RequestKind::push_pull) continue;
      pushes.push_back(*request);
      if (static_cast<int>(pushes.size()) < workers) continue;
      // All parts of answers that may be in flight are from here on.
      for (const WorkerRequest& push : pushes) {
        server.release(push);
        server.answer_in_place(push.worker, parameters);
      }
      pushes.clear();
    }
    EXPECT_LE(test::mpi_calls().tested, 64);
    EXPECT_GT(test::mpi_calls().tested, 7 * 8);
  };
  const auto work = [&](PushPullWorker& worker) {
    const std::vector<float> gradients(values);
    for (int step = 0; step < 3; ++step) {
      std::vector<float> parameters(values);
      worker.start_push_pull({step, 1, 0.0}, gradients, parameters);
      worker.wait();
      ASSERT_EQ(parameters, std::vector<float>(values, 2.0F));
    }
  };

  run(serve, work);
}

TEST_F(ManyWorkers, RequestsOfOneStayInOrderWhileMuchOfOthersIsOutstanding) {
  constexpr int rounds = 20;
  const test::TemporaryFolder folder;  // Each rank has one; rank 1's is the place to meet.
  const std::string done = world.all_gather(folder.path())[1] + "/done";
  const auto serve = [&](PushPullServer& server) {
    const std::vector<float> parameters(values);
    std::int64_t next = 0;
    while (server.workers_left() > 0) {
      // Seldom enough for rank 1 to send all that it may between two looks.
      if (next < 3 * rounds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto request = server.poll();
      if (!request || request->head.kind == RequestKind::farewell) continue;
      server.release(*request);
      if (request->worker == 0) {
        EXPECT_EQ(request->head.step, next++);
      } else {
        server.answer(request->worker, parameters);
      }
    }
    EXPECT_EQ(next, 3 * rounds);
  };
  const auto work = [&](PushPullWorker& worker) {
    std::vector<float> arena(values);
    if (world.rank() != 1) {
      worker.start_push_pull({0, 1, 0.0}, arena, arena);
      role.barrier();
      wait_for_file(done);  // The last parts are sent then.
      worker.wait();
      return;
    }
    role.barrier();
    const std::vector<std::byte> rows(100'000);
    for (int round = 0; round < rounds; ++round) {
      worker.start_rows(3 * round, std::vector<Payload>{{.out = rows}});
      worker.wait();
      for (const int pause : {1, 2}) {  // They wait for no server.
        worker.start_pause(3 * round + pause);
        worker.wait();
      }
    }
    std::ofstream(done) << "done";
  };

  run(serve, work);
  world.barrier();  // The folder of rank 1 stays until all are done.
}

TEST_F(ManyWorkers, ABufferServesOneWorkerAfterAnother) {
  const auto serve = [&](PushPullServer& server) {
    const std::vector<float> parameters(values);
    const void* buffer_of_values = nullptr;
    const void* buffer_of_payloads = nullptr;
    while (const auto request = server.next()) {
      if (request->head.kind == RequestKind::farewell) continue;
      if (buffer_of_values == nullptr) buffer_of_values = request->values.data();
      if (buffer_of_payloads == nullptr) buffer_of_payloads = request->payload.data();
      EXPECT_EQ(request->values.data(), buffer_of_values);
      EXPECT_EQ(request->payload.data(), buffer_of_payloads);
      server.release(*request);
      server.answer(request->worker, parameters);
    }
  };
  const auto work = [&](PushPullWorker& worker) {
    std::vector<float> arena(values);
    const std::vector<std::byte> rows(1000);
    for (int rank = 1; rank <= workers; ++rank) {
      if (rank == world.rank()) {
        worker.start_push_pull({0, 1, 0.0}, arena, arena, std::vector<Payload>{{.out = rows}});
        worker.wait();
      }
      role.barrier();
    }
  };

  run(serve, work);
}

}  // namespace
}  // namespace flotilla::mpi
