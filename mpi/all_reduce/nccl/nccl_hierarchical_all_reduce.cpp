// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/all_reduce/nccl/nccl_inside.hpp"
#include "mpi/all_reduce/nccl/nccl_queue.hpp"

namespace flotilla::mpi {

namespace {

class NcclHierarchical final : public NcclQueue {
 public:
  NcclHierarchical(const Communicator& world, const Communicator& group, NativeStream compute)
      : NcclQueue(compute),
        ranks_(world.size()),
        inside_(group, compute.ordinal),
        across_(same_place(world, group), compute.ordinal) {}

  std::string_view name() const override { return "nccl-hierarchical"; }
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

}  // namespace

std::unique_ptr<Collectives> make_nccl_hierarchical_all_reduce(const Communicator& world,
                                                               const Communicator& group,
                                                               NativeStream stream) {
  return std::make_unique<NcclHierarchical>(world, group, stream);
}

}  // namespace flotilla::mpi
