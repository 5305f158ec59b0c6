// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/device.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/core/shared_memory.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"

namespace flotilla {

/// A zeroed device array that is summed over ranks: in memory that the host's ranks share where the plan
/// needs that. For a device with memory of its own, shared or pinned host memory mirrors it.
class ReducedArray {
 public:
  ReducedArray() = default;
  /// Collective over `host`, after fit_to_shared_memory() of the plan.
  /// @throws UserError on the ranks of a host whose shared memory others have taken since
  ReducedArray(Device& device, std::size_t count, const AllReducePlan& plan, const mpi::Communicator& host);

  DeviceSpan<float> values() const { return values_; }
  mpi::SharedStorage* window() const { return window_.get(); }  ///< Null: none
  mpi::Mirror mirror() const { return mirror_; }                ///< Empty: none
  std::int64_t device_bytes() const { return static_cast<std::int64_t>(storage_.size() * sizeof(float)); }
  std::int64_t mirror_bytes() const { return static_cast<std::int64_t>(mirror_.host.size_bytes()); }

 private:
  Storage storage_;  ///< Or, where the host's ranks share the device's memory, the window
  std::unique_ptr<mpi::SharedStorage> window_;
  Storage pinned_;  ///< The mirror, or the hold on the window that is one
  DeviceSpan<float> values_;
  mpi::Mirror mirror_;
};

}  // namespace flotilla
