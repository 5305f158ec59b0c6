// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "kernels/device_queue.hpp"
#include "mpi/all_reduce/collectives.hpp"

namespace flotilla::mpi {

/// Device memory that the host cannot access, and a host array of the same size that mirrors it. `host` is
/// empty where the device shares the host's memory, and with one rank.
struct Mirror {
  DeviceSpan<float> device;
  std::span<float> host;
};

/// All-reduce of device memory by way of the host: a part of mirror.device is copied to mirror.host, summed
/// there by `sums`, and copied back. The thread that sums also copies, while the device computes. With one
/// rank nothing is done. `queue` and the memory must outlive the result.
std::unique_ptr<Collectives> make_staged_all_reduce(DeviceQueue& queue, std::unique_ptr<Collectives> sums,
                                                    const Mirror& mirror);

}  // namespace flotilla::mpi
