// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/nccl/nccl_inside.hpp"

#include <array>
#include <span>

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

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

}  // namespace

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

}  // namespace flotilla::mpi
