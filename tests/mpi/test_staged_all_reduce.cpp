// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/error.hpp"
#include "kernels/host_device.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "tests/mpi/all_reduces.hpp"
#include "tests/support/allocation_count.hpp"

namespace flotilla::mpi {
namespace {

constexpr std::size_t size = 5000;

/// An array of the reference device, which no collective can reach, and its mirror in shared memory.
struct Staged {
  Communicator world = Communicator::world();
  SharedStorage mirror{world, size};
  std::unique_ptr<Device> device = make_device({.kind = "reference"});
  Storage array = device->memory().allocate(size);

  std::unique_ptr<Collectives> all_reduce(const Way& way) {
    return make_staged_all_reduce(device->queue(), make(way, world, mirror), {array.span(), mirror.mine()});
  }
  DeviceSpan<float> part(std::size_t begin, std::size_t count) { return array.span().subspan(begin, count); }
  void fill() {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = mine(i, world.rank());
    device->memory().upload(values, array.span());
  }
  static float mine(std::size_t i, int rank) {
    return static_cast<float>((i * 7 + static_cast<std::size_t>(13 * rank)) % exact_below(Wire::bfloat16));
  }
  std::vector<float> values() const {
    std::vector<float> values(size);
    device->memory().download(array.span(), values);
    return values;
  }
  float sum(std::size_t i) const {
    float sum = 0.0F;
    for (int rank = 0; rank < world.size(); ++rank) sum += mine(i, rank);
    return sum;
  }
};

TEST(StagedAllReduce, SumsWhatTheHostCannotReachAndNothingElse) {
  Staged staged;
  for (const Way& way : all_ways()) {
    const auto host = make(way, staged.world, staged.mirror);
    if (!host) continue;
    const auto collectives = staged.all_reduce(way);
    staged.fill();

    all_reduce_now(*collectives, staged.part(100, 3000));

    const std::vector<float> values = staged.values();
    for (std::size_t i = 0; i < size; ++i)
      ASSERT_EQ(values[i], i < 100 || i >= 3100 ? Staged::mine(i, staged.world.rank()) : staged.sum(i))
          << way << ", value " << i;
    EXPECT_EQ(collectives->ranks(), host->ranks());
    EXPECT_EQ(collectives->sent_bytes(3000), staged.world.size() == 1 ? 0U : host->sent_bytes(3000)) << way;
  }
}

TEST(StagedAllReduce, GoesOnBesideTheComputationWithMoreBucketsThanMarksWithoutAllocating) {
  Staged staged;
  const auto collectives = staged.all_reduce({.algorithm = "shared-memory"});
  const std::array<Collectives*, 1> lane = {collectives.get()};
  constexpr std::size_t buckets = 250;
  CommunicationLanes lanes(lane, buckets, [] { abort_job(exit_internal_error); });

  std::int64_t allocations = 0;
  for (int step = 0; step < 20; ++step) {
    staged.fill();
    const std::int64_t before = test::allocations_of_all_threads();
    for (std::size_t bucket = buckets; bucket-- > 0;) lanes.start(staged.part(bucket * 20, 20));
    lanes.finish();
    if (step > 0) allocations += test::allocations_of_all_threads() - before;

    const std::vector<float> values = staged.values();
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(values[i], staged.sum(i)) << "step " << step;
  }
  EXPECT_EQ(allocations, 0);
}

TEST(StagedAllReduce, RefusesWhatHasNoMirrorOrWasNeverReady) {
  Staged staged;
  if (staged.world.size() == 1) GTEST_SKIP() << "one rank has its sum already";
  const auto collectives = staged.all_reduce({.algorithm = "mpi"});
  Storage elsewhere = staged.device->memory().allocate(10);

  collectives->ready(elsewhere.span());
  EXPECT_THROW(collectives->all_reduce(elsewhere.span()), InternalError);
  const auto other = staged.all_reduce({.algorithm = "mpi"});
  EXPECT_THROW(other->all_reduce(staged.part(0, 10)), InternalError);
}

TEST(StagedAllReduce, NeedsNoMirrorOnOneRank) {
  Staged staged;
  if (staged.world.size() > 1) GTEST_SKIP() << "for one rank";
  staged.fill();
  const auto collectives =
      make_staged_all_reduce(staged.device->queue(), make_mpi_all_reduce(staged.world), Mirror());

  all_reduce_now(*collectives, staged.part(0, size));

  EXPECT_EQ(staged.values()[17], Staged::mine(17, 0));
}

/// A device whose work is done long after it is handed out: a download is right only after its mark.
class LateLane final : public CopyLane {
 public:
  Mark mark() override { return next_++; }
  void download(Mark after, DeviceSpan<const float> from, std::span<float> host) override {
    marks.push_back(after);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = host_span(from)[i];
  }
  void upload(std::span<const float> host, DeviceSpan<float> to) override {
    for (std::size_t i = 0; i < host.size(); ++i) host_span(to)[i] = host[i];
  }

  std::vector<Mark> marks;

 private:
  Mark next_ = 0;
};

class LateQueue final : public HostQueue {
 public:
  using HostQueue::HostQueue;
  std::unique_ptr<CopyLane> copy_lane() override {
    auto made = std::make_unique<LateLane>();
    lane = made.get();
    return made;
  }
  LateLane* lane = nullptr;
};

TEST(StagedAllReduce, CopiesEachArrayAfterTheMarkThatWasSetWhenItWasReady) {
  const auto world = Communicator::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank has its sum already";
  const HostMemory memory;
  LateQueue queue(memory);
  std::vector<float> values(30, 1.0F);
  std::vector<float> mirror(30);
  const DeviceSpan<float> array = device_span(values);
  const auto collectives =
      make_staged_all_reduce(queue, make_mpi_all_reduce(world), {array, std::span(mirror)});

  for (const std::size_t begin : {20, 10, 0}) collectives->ready(array.subspan(begin, 10));
  for (const std::size_t begin : {20, 10, 0}) collectives->all_reduce(array.subspan(begin, 10));

  EXPECT_EQ(queue.lane->marks, (std::vector<CopyLane::Mark>{0, 1, 2}));
  EXPECT_EQ(values, std::vector<float>(30, static_cast<float>(world.size())));
}

}  // namespace
}  // namespace flotilla::mpi
