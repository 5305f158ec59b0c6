// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/core/slices.hpp"
#include "tests/mpi/fake_nccl/fake_cuda.hpp"
#include "tests/mpi/fake_nccl/fake_nccl.hpp"
#include "tests/support/messages.hpp"

namespace flotilla::mpi {
namespace {

using test::FakeLaunch;

constexpr std::size_t max_floats = 5000;
constexpr int members = 2;  // of a group

struct Way {
  std::string algorithm;
  Wire wire = Wire::float32;
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.algorithm << " " << name(way.wire);
}

/// A GPU's stream with host memory on it; what was put on it is done when a thread waits for it. The device
/// keeps it back until it is asked to submit.
class Gpu {
 public:
  Gpu() : stream_(test::make_fake_stream()) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() { test::destroy_fake_stream(stream_); }

  NativeStream stream() const {
    return {.handle = stream_, .ordinal = 3, .submit = [this] { submit(); }};
  }
  void put(std::function<void()> work) const { kept_back_.push_back(std::move(work)); }
  void wait() const {
    submit();
    test::wait_for_fake_stream(stream_);
  }

 private:
  void submit() const {
    for (auto& work : std::exchange(kept_back_, {})) test::put_on_fake_stream(stream_, std::move(work));
  }

  void* stream_;
  mutable std::vector<std::function<void()>> kept_back_;
};

class Nccl : public testing::Test {
 protected:
  std::unique_ptr<Collectives> make(const Way& way) const {
    if (way.algorithm == "nccl") return make_nccl_all_reduce(world, gpu.stream());
    const Communicator group = world.split(world.rank() / members);
    if (way.algorithm == "nccl-hierarchical")
      return make_nccl_hierarchical_all_reduce(world, group, gpu.stream());
    const std::size_t staged = EvenSlices(max_floats, group.size()).most();
    return make_nccl_over_mpi_all_reduce(world, group, gpu.stream(), HostMemory().allocate(staged), way.wire);
  }

  /// What rank `rank` adds at `i`; sums over four ranks are exact in any wire.
  static float value(int rank, std::size_t i) {
    return static_cast<float>((i + 1) % 31 + static_cast<std::size_t>(rank));
  }
  float sum(std::size_t i) const {
    float all = 0;
    for (int rank = 0; rank < world.size(); ++rank) all += value(rank, i);
    return all;
  }
  /// Computes as backward would: at some time before the work that is queued next.
  void compute(DeviceSpan<float> data) const {
    gpu.put([this, data] {
      for (std::size_t i = 0; i < data.size(); ++i) data.address()[i] = value(world.rank(), i);
    });
  }
  /// Reads the data as the optimizer would.
  std::vector<float> use(DeviceSpan<float> data) const {
    std::vector<float> read;
    gpu.put([&read, data] { read.assign(data.address(), data.address() + data.size()); });
    gpu.wait();
    return read;
  }
  std::vector<float> sums(std::size_t count) const {
    std::vector<float> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(sum(i));
    return all;
  }

  Communicator world = Communicator::world();
  Gpu gpu;
};

class NcclWays : public Nccl, public testing::WithParamInterface<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, NcclWays,
                         testing::Values(Way{"nccl"}, Way{"nccl-hierarchical"}, Way{"nccl-mpi"},
                                         Way{"nccl-mpi", Wire::float16}, Way{"nccl-mpi", Wire::bfloat16}));

TEST_P(NcclWays, SumsWhatTheDeviceComputesBeforeAndItUsesTheSumsAfter) {
  const auto collectives = make(GetParam());
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{67}, std::size_t{1000}, max_floats}) {
    std::vector<float> memory(count);
    const DeviceSpan<float> data(memory.data(), count);

    compute(data);
    collectives->ready(data);
    collectives->all_reduce(data);
    collectives->wait_on_stream();

    EXPECT_EQ(use(data), sums(count)) << count;
  }
}

TEST_P(NcclWays, WaitsForTheDeviceWhereTheHostWaitsForTheSums) {
  const auto collectives = make(GetParam());
  std::vector<float> memory(1000);
  const DeviceSpan<float> data(memory.data(), memory.size());

  compute(data);
  collectives->ready(data);
  collectives->all_reduce(data);
  collectives->wait();

  EXPECT_EQ(memory, sums(memory.size()));
}

TEST_P(NcclWays, SumsSeveralBucketsAtATime) {
  const auto collectives = make(GetParam());
  std::vector<float> memory(4000);
  const auto bucket = [&](std::size_t i) { return DeviceSpan<float>(memory.data() + 800 * i, 800); };

  for (std::size_t step = 0; step < 2; ++step) {
    for (std::size_t i = 5; i-- > 0;) {
      compute(bucket(i));
      collectives->ready(bucket(i));
      collectives->all_reduce(bucket(i));
    }
    collectives->wait_on_stream();

    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(use(bucket(i)), sums(800)) << i;
  }
}

TEST_P(NcclWays, SaysWhetherItQueues) {
  const auto collectives = make(GetParam());

  EXPECT_EQ(collectives->queues(), GetParam().algorithm != "nccl-mpi");
  EXPECT_EQ(collectives->ranks(), world.size());
  EXPECT_EQ(collectives->failure(), "");
}

TEST_P(NcclWays, TellsWhichCallFailed) {
  const auto collectives = make(GetParam());
  std::vector<float> memory(100);
  const DeviceSpan<float> data(memory.data(), memory.size());
  collectives->ready(data);

  test::refuse_next_fake_call();

  const std::string call = GetParam().algorithm == "nccl" ? "ncclAllReduce" : "ncclReduceScatter";
  EXPECT_TRUE(test::mentions(test::error_of<LibraryError>([&] { collectives->all_reduce(data); }),
                             {call + " failed: invalid usage"}));
}

TEST_F(Nccl, LaunchesPartAndRestOfABucketTogether) {
  if (world.size() != 4) GTEST_SKIP() << "two groups of two need 4 ranks";
  const auto collectives = make({"nccl-hierarchical"});
  std::vector<float> memory(100);  // parts of 48, and 4 left over
  test::take_fake_launches();

  collectives->all_reduce({memory.data(), memory.size()});

  const std::vector<FakeLaunch> launches = test::take_fake_launches();
  ASSERT_EQ(launches.size(), 5U);
  const int inside = launches[0].communicator;
  const int at = launches[0].launch;
  const std::size_t mine = world.rank() % 2 == 0 ? 48 : 52;
  EXPECT_EQ(launches[0], (FakeLaunch{"reduce-scatter", 48, inside, at}));
  EXPECT_EQ(launches[1], (FakeLaunch{"reduce", 4, inside, at}));
  EXPECT_EQ(launches[2], (FakeLaunch{"all-reduce", mine, inside + 1, at + 1}));
  EXPECT_EQ(launches[3], (FakeLaunch{"all-gather", 48, inside, at + 2}));
  EXPECT_EQ(launches[4], (FakeLaunch{"broadcast", 4, inside, at + 2}));
  collectives->wait();
}

TEST_F(Nccl, LanesDealBucketsOutToCommunicatorsAndSettleOnce) {
  const int first = test::fake_communicators();
  const auto one = make({"nccl"});
  const auto other = make({"nccl"});
  const std::array<Collectives*, 2> both = {one.get(), other.get()};
  CommunicationLanes lanes(both, 3, [] { abort_job(exit_library_error); });
  std::vector<float> memory(3000);
  const DeviceSpan<float> all(memory.data(), memory.size());
  test::take_fake_launches();

  for (int step = 0; step < 2; ++step) {
    for (std::size_t i = 0; i < 3; ++i) {
      compute(all.subspan(1000 * i, 1000));
      lanes.start(all.subspan(1000 * i, 1000));
    }
    lanes.finish();

    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(use(all.subspan(1000 * i, 1000)), sums(1000));
  }

  std::vector<int> used;
  for (const FakeLaunch& launch : test::take_fake_launches()) used.push_back(launch.communicator - first);
  EXPECT_EQ(used, (std::vector{0, 1, 0, 0, 1, 0}));
}

TEST_F(Nccl, OverMpiWorksOnAnotherThreadWhileTheDeviceComputes) {
  const auto collectives = make({"nccl-mpi"});
  constexpr std::size_t buckets = 100;  // more than there are marks
  std::vector<float> memory(buckets * 40);
  const auto bucket = [&](std::size_t i) { return DeviceSpan<float>(memory.data() + 40 * i, 40); };

  for (std::size_t i = 0; i < buckets; ++i) {
    compute(bucket(i));
    collectives->ready(bucket(i));
  }
  std::thread lane([&] {
    for (std::size_t i = 0; i < buckets; ++i) collectives->all_reduce(bucket(i));
  });
  lane.join();
  collectives->wait_on_stream();

  for (std::size_t i = 0; i < buckets; ++i) EXPECT_EQ(use(bucket(i)), sums(40)) << i;
}

TEST_F(Nccl, OverMpiRefusesWhatIsNotReady) {
  const auto collectives = make({"nccl-mpi"});
  std::vector<float> memory(10);

  EXPECT_THROW(collectives->all_reduce({memory.data(), 10}), InternalError);
}

TEST_F(Nccl, WantsGroupsOfOneSize) {
  if (world.size() != 4) GTEST_SKIP() << "groups of 3 and 1 need 4 ranks";
  const Communicator group = world.split(world.rank() / 3);

  EXPECT_THROW(make_nccl_hierarchical_all_reduce(world, group, gpu.stream()), InternalError);
}

TEST_F(Nccl, CountsWhatARankSends) {
  const auto flat = make({"nccl"});
  const auto n = static_cast<std::size_t>(world.size());

  EXPECT_EQ(flat->sent_bytes(1000), 2 * (n - 1) * 4000 / n);
  if (n != 4) return;
  const auto hierarchical = make({"nccl-hierarchical"});
  const std::size_t mine = world.rank() % 2 == 0 ? 496 : 504;
  EXPECT_EQ(hierarchical->sent_bytes(1000), 4000 + mine * 4);
}

TEST_F(Nccl, SumsDoublesOnTheDevicesStream) {
  const auto doubles = make_nccl_sums(world, gpu.stream());
  // float would lose what the ranks add to 2³⁰.
  std::vector<double> values(10);
  const double ranks = world.size();

  gpu.put([&] { std::ranges::fill(values, 0x1p30 + world.rank()); });
  gpu.stream().submit();
  doubles->all_reduce({values.data(), values.size()});
  EXPECT_EQ(values, std::vector<double>(10)) << "the host waits for nothing";

  gpu.wait();
  EXPECT_EQ(values, std::vector<double>(10, ranks * 0x1p30 + ranks * (ranks - 1.0) / 2.0));
  EXPECT_EQ(doubles->failure(), "");
  test::refuse_next_fake_call();
  EXPECT_THROW(doubles->all_reduce({values.data(), values.size()}), LibraryError);
}

TEST_F(Nccl, WantsADeviceWithAStream) {
  EXPECT_THROW(make_nccl_sums(world, {}), InternalError);
  EXPECT_THROW(make_nccl_all_reduce(world, {}), InternalError);
}

TEST(NcclVersion, IsThatOfTheLibrary) {
  EXPECT_TRUE(has_nccl());
  EXPECT_EQ(nccl_version().substr(0, 2), "2.");
}

}  // namespace
}  // namespace flotilla::mpi
