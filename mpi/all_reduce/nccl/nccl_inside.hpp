// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/tensor.hpp"
#include "mpi/all_reduce/nccl/nccl_communicator.hpp"
#include "mpi/core/even_slices.hpp"

namespace flotilla::mpi {

/// Collective. The ranks with the same index in every group.
/// @throws InternalError on every rank if groups differ in size
Communicator same_place(const Communicator& world, const Communicator& group);

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

}  // namespace flotilla::mpi
