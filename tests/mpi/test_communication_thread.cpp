// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "tests/support/allocation_count.hpp"

namespace flotilla::mpi {
namespace {

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

void unexpected() {
  abort_job(exit_internal_error);
}

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
