// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "tests/mpi/all_reduces.hpp"

namespace flotilla::mpi {
namespace {

void unexpected() {
  abort_job(exit_internal_error);
}

std::vector<Collectives*> pointers(const std::vector<std::unique_ptr<Collectives>>& owners) {
  std::vector<Collectives*> all;
  for (const auto& owner : owners) all.push_back(owner.get());
  return all;
}

/// Notes the calls it gets; waits in each until all of `together` are inside one.
class Noting final : public Collectives {
 public:
  explicit Noting(std::atomic<int>* inside = nullptr, int together = 1)
      : inside_(inside), together_(together) {}
  int ranks() const override { return 1; }
  void all_reduce(DeviceSpan<float> data, CallSite) override {
    calls.push_back(static_cast<int>(host_span(data)[0]));
    if (inside_ == nullptr) return;
    ++*inside_;
    while (inside_->load() < together_) std::this_thread::yield();
  }
  std::size_t sent_bytes(std::size_t) const override { return 0; }

  std::vector<int> calls;

 private:
  std::atomic<int>* inside_;
  int together_;
};

/// Hands its work to a device, in the thread that computes.
class Queueing final : public Collectives {
 public:
  int ranks() const override { return 1; }
  void ready(DeviceSpan<const float> data) override { note("ready", data); }
  void all_reduce(DeviceSpan<float> data, CallSite) override {
    note("all-reduce", data);
    threads.insert(std::this_thread::get_id());
  }
  void wait_on_stream() override { calls.emplace_back("wait_on_stream"); }
  bool queues() const override { return true; }
  std::size_t sent_bytes(std::size_t) const override { return 0; }

  std::vector<std::string> calls;
  std::set<std::thread::id> threads;

 private:
  void note(const char* what, DeviceSpan<const float> data) {
    calls.push_back(what + std::to_string(data.size()));
  }
};

TEST(CommunicationLanes, QueueFromTheCallingThreadAndSettleOnce) {
  Queueing first;
  Queueing second;
  const std::array<Collectives*, 2> both = {&first, &second};
  CommunicationLanes communication(both, 3, unexpected);
  std::vector<float> data(10);

  for (const std::size_t count : {1, 2, 3}) communication.start(device_span(data).subspan(0, count));
  communication.finish();

  EXPECT_EQ(first.calls,
            (std::vector<std::string>{"ready1", "all-reduce1", "ready3", "all-reduce3", "wait_on_stream"}));
  EXPECT_EQ(second.calls, (std::vector<std::string>{"ready2", "all-reduce2", "wait_on_stream"}));
  EXPECT_EQ(first.threads, std::set{std::this_thread::get_id()});
}

TEST(CommunicationLanes, SumBucketsOverRanksEachOnItsCommunicator) {
  const auto world = Communicator::world();
  SharedStorage storage(world, 10'000);
  for (const Way& way : {Way{.algorithm = "mpi"}, Way{.algorithm = "shared-memory"},
                         Way{.algorithm = "hierarchical", .ranks_per_group = 2}}) {
    for (const std::size_t lanes : {1, 2, 3}) {
      std::vector<std::unique_ptr<Collectives>> collectives;
      for (std::size_t lane = 0; lane < lanes; ++lane) collectives.push_back(make(way, world, storage));
      CommunicationLanes communication(pointers(collectives), 5, unexpected);
      const std::span<float> data = storage.mine();
      for (int step = 0; step < 50; ++step) {
        std::fill(data.begin(), data.end(), static_cast<float>(world.rank() + step));

        for (std::size_t bucket = 5; bucket-- > 0;)
          communication.start(device_span(data.subspan(bucket * 2000, 2000)));
        communication.finish();

        const int n = world.size();
        for (const float x : data) ASSERT_EQ(x, static_cast<float>(n * (n - 1) / 2 + n * step));
      }
      EXPECT_EQ(communication.size(), lanes);
      EXPECT_GT(communication.busy_ns(), 0);
    }
  }
}

TEST(CommunicationLanes, TakeTurnsFromTheFirstInEveryStep) {
  Noting even;
  Noting odd;
  const std::array<Collectives*, 2> lanes = {&even, &odd};
  CommunicationLanes communication(lanes, 3, unexpected);
  std::vector<float> data = {0, 1, 2};

  for (int step = 0; step < 2; ++step) {
    for (float& x : data) communication.start({&x, 1});
    communication.finish();
  }

  EXPECT_EQ(even.calls, (std::vector{0, 2, 0, 2}));
  EXPECT_EQ(odd.calls, (std::vector{1, 1}));
}

TEST(CommunicationLanes, WorkAtTheSameTime) {
  std::atomic<int> inside{0};
  Noting one(&inside, 2);
  Noting other(&inside, 2);
  const std::array<Collectives*, 2> lanes = {&one, &other};
  CommunicationLanes communication(lanes, 2, unexpected);
  float x = 0;
  float y = 0;

  communication.start({&x, 1});
  communication.start({&y, 1});
  communication.finish();  // would not return if the second waited for the first

  EXPECT_EQ(inside, 2);
}

TEST(CommunicationLanes, RefuseMoreThanTheirCapacity) {
  std::atomic<int> inside{0};
  Noting one(&inside, 2);
  Noting other;
  const std::array<Collectives*, 2> lanes = {&one, &other};
  CommunicationLanes communication(lanes, 2, unexpected);
  float x = 0;
  communication.start({&x, 1});
  communication.start({&x, 1});

  EXPECT_THROW(communication.start({&x, 1}), InternalError);

  inside = 2;
  communication.finish();
}

TEST(CommunicationLanes, NeedOne) {
  EXPECT_THROW(CommunicationLanes({}, 1, unexpected), InternalError);
}

}  // namespace
}  // namespace flotilla::mpi
