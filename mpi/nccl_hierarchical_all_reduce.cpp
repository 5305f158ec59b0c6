// SPDX-License-Identifier: Apache-2.0
#include "mpi/nccl_all_reduce.hpp"
#include "mpi/nccl_inside.hpp"
#include "mpi/nccl_queue.hpp"

namespace flotilla::mpi {

namespace {

class HierarchicalLane final : public NcclLane {
 public:
  HierarchicalLane(const Communicator& group, const Communicator& across, NativeStream compute)
      : NcclLane(compute), inside_(group, compute.ordinal), across_(across, compute.ordinal) {}

  std::string failure() const override {
    std::string failure = inside_.failure();
    return failure.empty() ? across_.failure() : failure;
  }

 private:
  void launch(DeviceSpan<float> data) override {
    inside_.reduce_scatter(data, stream().handle());
    const DeviceSpan<float> mine = inside_.mine(data);
    const ncclComm_t across = across_.handle();
    if (!mine.empty())
      check(ncclAllReduce(mine.address(), mine.address(), mine.size(), ncclFloat32, ncclSum, across,
                          stream().handle()),
            "ncclAllReduce", across);
    inside_.all_gather(data, stream().handle());
  }

  NcclInside inside_;
  NcclCommunicator across_;
};

class NcclHierarchical final : public NcclQueue {
 public:
  NcclHierarchical(const Communicator& world, const Communicator& group, const Communicator& across,
                   NativeStream compute, int communicators)
      : NcclQueue(
            lanes(communicators, [&] { return std::make_unique<HierarchicalLane>(group, across, compute); })),
        ranks_(world.size()),
        member_(group.rank()),
        members_(group.size()) {}

  std::string_view name() const override { return "nccl-hierarchical"; }
  int ranks() const override { return ranks_; }
  std::size_t sent_bytes(std::size_t count) const override {
    const auto members = static_cast<std::size_t>(members_);
    const auto groups = static_cast<std::size_t>(ranks_) / members;
    const SliceBounds mine = EvenSlices(count, members_).of(member_);
    return 2 * (members - 1) * count * sizeof(float) / members +
           2 * (groups - 1) * (mine.end - mine.begin) * sizeof(float) / groups;
  }

 private:
  int ranks_;
  int member_;
  int members_;
};

}  // namespace

std::unique_ptr<Collectives> make_nccl_hierarchical_all_reduce(const Communicator& world,
                                                               const Communicator& group, NativeStream stream,
                                                               int communicators) {
  return std::make_unique<NcclHierarchical>(world, group, same_place(world, group), stream, communicators);
}

}  // namespace flotilla::mpi
