// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "mpi/start/gpu_binding.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// Collective over the ranks that compute. Assigns a GPU to each of them if the deck asks for the device
/// "cuda", otherwise none.
/// @throws AgreedFailure as visible_gpus() and mpi::bind_gpus() do
mpi::GpuBinding find_gpus(const DeviceConfig& device, const mpi::Communicator& workers,
                          const std::vector<mpi::Place>& places);

/// The deck's precision, or of "auto" the one that all processors compute fastest.
/// @param faster whether each rank's processor is_faster_in_bfloat16()
/// @throws UserError naming the hosts that differ
Precision choose_precision(DevicePrecision precision, const std::vector<std::int64_t>& faster,
                           const std::vector<mpi::Place>& places);

/// Collective over the ranks that compute. choose_precision() of what each finds on its host.
/// @throws AgreedFailure as choose_precision() does
Precision find_precision(const DeviceConfig& device, const mpi::Communicator& workers,
                         const std::vector<mpi::Place>& places);

/// Why these workers cannot use NCCL, to follow strategy.all_reduce = "nccl" in a message; empty: they can.
/// @param built whether this build has NCCL
std::string no_nccl(const mpi::GpuBinding& gpus, bool built);

/// Makes the deck's device for the rank at `place`, with the deck's number of threads, or one for each core
/// of the rank.
/// @param precision of find_precision()
/// @param gpu the ordinal of the rank's GPU among those that it sees; read for the device "cuda" only
/// @param reproducible the deck's run.reproducible
/// @throws UserError as make_device(const DeviceSpec&) does
std::unique_ptr<Device> make_device(const DeviceConfig& device, Precision precision, const mpi::Place& place,
                                    int gpu, bool reproducible);

}  // namespace flotilla
