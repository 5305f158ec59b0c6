// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "kernels/device.hpp"
#include "mpi/all_reduce/collectives.hpp"

namespace flotilla::mpi {

/// Memory of a device that the host cannot reach, and as many floats of the host's that stand in for it,
/// place by place. Where the device shares the host's memory, and on one rank alone, `host` is empty.
struct Mirror {
  DeviceSpan<float> device;
  std::span<float> host;
};

/// Lets `sums`, which sums in the host's memory, sum in that of `device`: what is in mirror.device goes down
/// to its place in mirror.host, is summed there, and comes back. The thread that sums copies, too, while the
/// device computes. One rank alone has its sum already. Both `device` and the memory must outlive it.
std::unique_ptr<Collectives> make_staged_all_reduce(Device& device, std::unique_ptr<Collectives> sums,
                                                    const Mirror& mirror);

}  // namespace flotilla::mpi
