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
#include "tests/support/allocation_count.hpp"

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

/// Doubles the data after a while, alone.
class Slow final : public Collectives {
 public:
  explicit Slow(std::chrono::microseconds duration) : duration_(duration) {}
  int ranks() const override { return 1; }
  void all_reduce(DeviceSpan<float> data, CallSite) override {
    std::this_thread::sleep_for(duration_);
    for (float& x : host_span(data)) x = 2 * x + static_cast<float>(calls);
    ++calls;
  }
  std::size_t sent_bytes(std::size_t) const override { return 0; }

  int calls = 0;

 private:
  std::chrono::microseconds duration_;
};

TEST(CommunicationThread, SumsBucketsOverRanksBesideTheComputation) {
  const auto world = Communicator::world();
  SharedStorage storage(world, 10'000);
  const auto shared = make_shared_memory_all_reduce(world, storage);
  const auto plain = make_mpi_all_reduce(world);
  for (Collectives* collectives : {shared.get(), plain.get()}) {
    CommunicationThread thread(*collectives, 4, unexpected);
    const std::span<float> data = storage.mine();
    for (int step = 0; step < 500; ++step) {
      std::fill(data.begin(), data.end(), static_cast<float>(world.rank() + step));

      for (std::size_t bucket = 4; bucket-- > 0;)
        thread.start(device_span(data.subspan(bucket * 2500, 2500)));
      thread.finish();

      const int n = world.size();
      for (const float x : data) ASSERT_EQ(x, static_cast<float>(n * (n - 1) / 2 + n * step));
    }
    EXPECT_GT(thread.busy_ns(), 0);
  }
}

TEST(CommunicationThread, WorksInTheOrderOfTheCalls) {
  Slow slow(std::chrono::microseconds(0));
  CommunicationThread thread(slow, 3, unexpected);
  std::vector<float> values(3, 1.0f);

  for (float& x : values) thread.start({&x, 1});
  thread.finish();

  EXPECT_EQ(values, (std::vector<float>{2, 3, 4}));
}

TEST(CommunicationThread, WakesAfterLongPauses) {
  Slow slow(std::chrono::milliseconds(0));
  CommunicationThread thread(slow, 1, unexpected);
  float x = 0;
  for (int call = 0; call < 20; ++call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // both have gone to sleep in the kernel
    x = 1;

    thread.start({&x, 1});
    thread.finish();

    ASSERT_EQ(x, static_cast<float>(2 + call));
  }
}

TEST(CommunicationThread, FinishWaitsForWhatIsInFlight) {
  Slow slow(std::chrono::milliseconds(20));
  CommunicationThread thread(slow, 2, unexpected);
  float x = 1;

  thread.start({&x, 1});
  thread.start({&x, 1});
  thread.finish();

  EXPECT_EQ(slow.calls, 2);
  EXPECT_GE(thread.busy_ns(), 40'000'000);
}

TEST(CommunicationThread, RefusesMoreThanItsCapacity) {
  Slow slow(std::chrono::milliseconds(20));
  CommunicationThread thread(slow, 1, unexpected);
  float x = 1;
  thread.start({&x, 1});

  EXPECT_THROW(thread.start({&x, 1}), InternalError);

  thread.finish();
}

TEST(CommunicationThread, AllocatesNothingPerCall) {
  const auto world = Communicator::world();
  SharedStorage storage(world, 100);
  const auto shared = make_shared_memory_all_reduce(world, storage);
  CommunicationThread thread(*shared, 2, unexpected);
  const auto step = [&] {
    thread.start(device_span(storage.mine().first(50)));
    thread.start(device_span(storage.mine().last(50)));
    thread.finish();
  };
  step();
  const std::int64_t before = test::allocations_of_all_threads();

  for (int i = 0; i < 100; ++i) step();

  EXPECT_EQ(test::allocations_of_all_threads(), before);
}

TEST(CommunicationThread, IsLeftAloneWhileAnExceptionIsThrown) {
  // A collective that never ends, as when other ranks are gone. It is leaked with its thread on purpose.
  class Endless final : public Collectives {
   public:
    int ranks() const override { return 1; }
    void all_reduce(DeviceSpan<float>, CallSite) override {
      entered = true;
      while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    std::size_t sent_bytes(std::size_t) const override { return 0; }
    std::atomic<bool> entered{false};
  };
  auto* endless = new Endless;
  static float x = 1;

  try {
    CommunicationThread thread(*endless, 1, unexpected);
    thread.start({&x, 1});
    while (!endless->entered) std::this_thread::yield();
    throw std::runtime_error("elsewhere");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "elsewhere");  // reached: the destructor did not wait
  }
}

/// Counts the spans it is given.
class CountingSink final : public trace::Sink {
 public:
  void span(const char* name, std::int64_t begin_ns, std::int64_t end_ns) override {
    count += std::string(name) == "all-reduce" && begin_ns <= end_ns ? 1 : 0;
  }
  std::atomic<int> count{0};
};

TEST(CommunicationThread, RecordsASpanPerAllReduce) {
  CountingSink sink;
  Slow slow(std::chrono::microseconds(1));
  float x = 1;
  {
    CommunicationThread thread(slow, 2, unexpected, &sink);
    thread.start({&x, 1});
    thread.start({&x, 1});
  }  // finishes what was started
  EXPECT_EQ(sink.count, 2);
}

}  // namespace
}  // namespace flotilla::mpi
