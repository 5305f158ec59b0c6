// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/tensor.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/nccl/nccl_communicator.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

namespace {

/// Collectives that only launch work on a stream of their own: after the device's work so far, and before its
/// work after wait_on_stream(). Every rank calls from its computing thread, so that all launch in one order.
class NcclQueue : public Collectives {
 public:
  explicit NcclQueue(NativeStream compute) : stream_(compute) {}

  void all_reduce(DeviceSpan<float> data, CallSite at) final {
    stream_.follow_device();
    if (!data.empty()) launch(data, stream_.handle(), at);
  }
  void wait_on_stream() final { stream_.lead_device(); }
  void wait() final { stream_.wait(); }
  bool queues() const final { return true; }

 private:
  virtual void launch(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) = 0;

  NcclStream stream_;
};

/// Reduce-scatter and all-gather among the ranks of a group by NCCL, in place. The remainder of an uneven
/// division is the last member's, in the same launch.
class NcclInside {
 public:
  NcclInside(const Communicator& group, int ordinal) : communicator_(group, ordinal) {}

  /// The part of `data` of which this rank holds the group's sum after the reduce-scatter.
  DeviceSpan<float> mine(DeviceSpan<float> data) const;
  void reduce_scatter(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) const;
  void all_gather(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) const;
  std::size_t sent_bytes(std::size_t count) const;
  std::string failure() const { return communicator_.failure(); }

 private:
  int last() const { return communicator_.size() - 1; }
  EvenSlices slices(std::size_t count) const { return {count, communicator_.size()}; }

  NcclCommunicator communicator_;
};

DeviceSpan<float> part_of(DeviceSpan<float> data, SliceBounds bounds) {
  return data.subspan(bounds.begin, bounds.end - bounds.begin);
}

/// One launch for what does not depend on each other.
template <class Calls>
void launch_together(ncclComm_t communicator, const Calls& calls) {
  check(ncclGroupStart(), "ncclGroupStart", communicator);
  calls();
  check(ncclGroupEnd(), "ncclGroupEnd", communicator);
}

/// Collective. The ranks with the same index in every group.
/// @throws InternalError on every rank if groups differ in size
Communicator same_place(const Communicator& world, const Communicator& group) {
  std::array sizes = {group.size(), -group.size()};
  world.all_reduce(std::span<int>(sizes), Op::max);
  require(sizes[0] == -sizes[1], "NCCL in groups of ", -sizes[1], " to ", sizes[0], " ranks");
  return world.split(group.rank());
}

DeviceSpan<float> NcclInside::mine(DeviceSpan<float> data) const {
  return part_of(data, slices(data.size()).of(communicator_.rank()));
}

void NcclInside::reduce_scatter(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) const {
  const CollectiveScope call = communicator_.announce("NCCL reduce-scatter", data.size(), at);
  const EvenSlices all = slices(data.size());
  const DeviceSpan<float> rest = part_of(data, all.rest());
  const NcclHandle communicator = communicator_.handle();
  launch_together(communicator, [&] {
    if (all.part() > 0)
      check(ncclReduceScatter(data.address(), mine(data).address(), all.part(), ncclFloat32, ncclSum,
                              communicator, stream),
            "ncclReduceScatter", communicator);
    if (!rest.empty())
      check(ncclReduce(rest.address(), rest.address(), rest.size(), ncclFloat32, ncclSum, last(),
                       communicator, stream),
            "ncclReduce", communicator);
  });
}

void NcclInside::all_gather(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) const {
  const CollectiveScope call = communicator_.announce("NCCL all-gather", data.size(), at);
  const EvenSlices all = slices(data.size());
  const DeviceSpan<float> rest = part_of(data, all.rest());
  const NcclHandle communicator = communicator_.handle();
  launch_together(communicator, [&] {
    if (all.part() > 0)
      check(
          ncclAllGather(mine(data).address(), data.address(), all.part(), ncclFloat32, communicator, stream),
          "ncclAllGather", communicator);
    if (!rest.empty())
      check(ncclBroadcast(rest.address(), rest.address(), rest.size(), ncclFloat32, last(), communicator,
                          stream),
            "ncclBroadcast", communicator);
  });
}

std::size_t NcclInside::sent_bytes(std::size_t count) const {
  const auto members = static_cast<std::size_t>(communicator_.size());
  return 2 * (members - 1) * count * sizeof(float) / members;
}

class NcclAllReduce final : public NcclQueue {
 public:
  NcclAllReduce(const Communicator& group, NativeStream compute)
      : NcclQueue(compute), communicator_(group, compute.ordinal) {}

  int ranks() const override { return communicator_.size(); }
  std::string failure() const override { return communicator_.failure(); }
  std::size_t sent_bytes(std::size_t count) const override {
    const auto n = static_cast<std::size_t>(ranks());
    return 2 * (n - 1) * count * sizeof(float) / n;
  }

 private:
  void launch(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) override {
    const CollectiveScope call = communicator_.announce("NCCL all-reduce", data.size(), at);
    const NcclHandle communicator = communicator_.handle();
    check(ncclAllReduce(data.address(), data.address(), data.size(), ncclFloat32, ncclSum, communicator,
                        stream),
          "ncclAllReduce", communicator);
  }

  NcclCommunicator communicator_;
};

class NcclHierarchical final : public NcclQueue {
 public:
  NcclHierarchical(const Communicator& world, const Communicator& group, NativeStream compute)
      : NcclQueue(compute),
        ranks_(world.size()),
        inside_(group, compute.ordinal),
        across_(same_place(world, group), compute.ordinal) {}

  int ranks() const override { return ranks_; }
  std::size_t sent_bytes(std::size_t count) const override {
    const auto groups = static_cast<std::size_t>(across_.size());
    const std::size_t mine = inside_.mine({nullptr, count}).size();
    return inside_.sent_bytes(count) + 2 * (groups - 1) * mine * sizeof(float) / groups;
  }
  std::string failure() const override {
    std::string failure = inside_.failure();
    return failure.empty() ? across_.failure() : failure;
  }

 private:
  void launch(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) override {
    inside_.reduce_scatter(data, stream, at);
    const DeviceSpan<float> mine = inside_.mine(data);
    const NcclHandle across = across_.handle();
    if (!mine.empty()) {
      const CollectiveScope call = across_.announce("NCCL all-reduce", mine.size(), at);
      check(ncclAllReduce(mine.address(), mine.address(), mine.size(), ncclFloat32, ncclSum, across, stream),
            "ncclAllReduce", across);
    }
    inside_.all_gather(data, stream, at);
  }

  int ranks_;
  NcclInside inside_;
  NcclCommunicator across_;
};

/// The computing thread marks what is ready; whichever thread calls all_reduce() launches, waits and has MPI
/// work.
class NcclOverMpi final : public Collectives {
 public:
  NcclOverMpi(const Communicator& world, const Communicator& group, const Communicator& same,
              NativeStream compute, Storage staging, Wire wire)
      : ranks_(world.size()),
        compute_(compute),
        stream_(compute_),
        inside_(group, compute_.ordinal),
        across_(make_mpi_all_reduce(same, wire)),
        staging_(std::move(staging)) {
    for (CudaEvent& mark : marks_) mark = make_event();
    const int own = world.rank();
    same_place_ = same.all_gather(std::span(&own, 1));
  }

  int ranks() const override { return ranks_; }

  void ready(DeviceSpan<const float> /*data*/) override {
    const std::size_t mark = marked_.load() % marks_.size();
    stream_.mark_device(marks_[mark]);
    ++marked_;
  }

  void all_reduce(DeviceSpan<float> data, CallSite at) override {
    require(taken_ < marked_.load(), "an all-reduce of what is not ready");
    check(cudaSetDevice(compute_.ordinal), "cudaSetDevice");  // of this thread
    // If more calls wait than there are marks, this one has been recorded again, and the wait is longer than
    // necessary.
    check(cudaStreamWaitEvent(stream_.handle(), marks_[taken_++ % marks_.size()].get(), 0),
          "cudaStreamWaitEvent");
    if (data.empty()) return;
    inside_.reduce_scatter(data, stream_.handle(), at);
    if (const DeviceSpan<float> mine = inside_.mine(data); !mine.empty()) sum_across(mine, at);
    inside_.all_gather(data, stream_.handle(), at);
  }

  void wait_on_stream() override { stream_.lead_device(); }
  void wait() override { stream_.wait(); }
  std::string failure() const override { return inside_.failure(); }

  std::vector<int> missing_ranks() const override {
    std::vector<int> missing = across_->missing_ranks();
    for (int& rank : missing) rank = same_place_[static_cast<std::size_t>(rank)];
    return missing;
  }

  std::size_t sent_bytes(std::size_t count) const override {
    const std::size_t mine = inside_.mine({nullptr, count}).size();
    return inside_.sent_bytes(count) + across_->sent_bytes(mine);
  }

 private:
  void sum_across(DeviceSpan<float> mine, const CallSite& at) {
    require(mine.size() <= staging_.size(), "staging ", mine.size(), " floats in ", staging_.size());
    const DeviceSpan<float> host = staging_.span().subspan(0, mine.size());
    const std::size_t bytes = mine.size() * sizeof(float);
    check(cudaMemcpyAsync(host.address(), mine.address(), bytes, cudaMemcpyDeviceToHost, stream_.handle()),
          "cudaMemcpyAsync");
    stream_.wait();
    across_->all_reduce(host, at);
    // The next call's copy to the host comes after this one: one buffer is enough.
    check(cudaMemcpyAsync(mine.address(), host.address(), bytes, cudaMemcpyHostToDevice, stream_.handle()),
          "cudaMemcpyAsync");
  }

  int ranks_;
  NativeStream compute_;
  NcclStream stream_;
  NcclInside inside_;
  std::unique_ptr<Collectives> across_;
  Storage staging_;
  std::vector<int> same_place_;  ///< Ranks of the world at this rank's place in every group
  std::array<CudaEvent, 64> marks_;
  std::atomic<std::size_t> marked_{0};
  std::size_t taken_ = 0;
};

class NcclSums final : public DeviceSums {
 public:
  NcclSums(const Communicator& group, const NativeStream& compute)
      : stream_(static_cast<cudaStream_t>(compute.handle)), communicator_(group, compute.ordinal) {}

  void all_reduce(DeviceSpan<double> values, CallSite at) override {
    const CollectiveScope call = communicator_.announce("NCCL all-reduce of doubles", values.size(), at);
    const NcclHandle communicator = communicator_.handle();
    check(ncclAllReduce(values.address(), values.address(), values.size(), ncclFloat64, ncclSum, communicator,
                        stream_),
          "ncclAllReduce", communicator);
  }
  std::string failure() const override { return communicator_.failure(); }

 private:
  cudaStream_t stream_;
  NcclCommunicator communicator_;
};

}  // namespace

std::string nccl_version() {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  // 22809; before 2.9 it was 2804
  const int thousands = version < 10000 ? 1000 : 10000;
  return cat(version / thousands, ".", version % thousands / 100, ".", version % 100);
}

bool has_nccl() {
  return true;
}

std::unique_ptr<Collectives> make_nccl_all_reduce(const Communicator& group, NativeStream stream) {
  return std::make_unique<NcclAllReduce>(group, stream);
}

std::unique_ptr<Collectives> make_nccl_hierarchical_all_reduce(const Communicator& world,
                                                               const Communicator& group,
                                                               NativeStream stream) {
  return std::make_unique<NcclHierarchical>(world, group, stream);
}

std::unique_ptr<Collectives> make_nccl_over_mpi_all_reduce(const Communicator& world,
                                                           const Communicator& group, NativeStream stream,
                                                           Storage staging, Wire wire) {
  return std::make_unique<NcclOverMpi>(world, group, same_place(world, group), stream, std::move(staging),
                                       wire);
}

std::unique_ptr<DeviceSums> make_nccl_sums(const Communicator& group, NativeStream stream) {
  require(stream.ordinal >= 0, "NCCL on a device without a stream");
  return std::make_unique<NcclSums>(group, stream);
}

}  // namespace flotilla::mpi
