// SPDX-License-Identifier: Apache-2.0
#include "src/train/gpus.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/gpus.hpp"
#include "src/train/failure.hpp"

namespace flotilla {

mpi::GpuBinding find_gpus(const DeviceConfig& device, const mpi::Communicator& workers,
                          const std::vector<mpi::Place>& places) {
  if (device.kind != "cuda") return {};
  mpi::GpuView mine;
  agree(workers, places, [&] { mine = mpi::look_at_gpus(visible_gpus()); });
  const std::vector<mpi::GpuView> views = mpi::all_gather(workers, mine);
  mpi::GpuBinding binding;
  throw_alike([&] { binding = mpi::bind_gpus(places, views, device.share); });
  return binding;
}

std::string no_nccl(const mpi::GpuBinding& gpus, bool built) {
  if (gpus.ranks.empty()) return "needs device.kind = \"cuda\"";
  if (!built)
    return "needs NCCL, which this build has not: configure it with -DFLOTILLA_NCCL=ON (NCCL_ROOT tells "
           "where "
           "it is), or use \"auto\"";
  const auto shared =
      std::ranges::find_if(gpus.ranks, [](const auto& bound) { return bound.sharing.size() > 1; });
  if (shared == gpus.ranks.end()) return "";
  return cat("needs a GPU for each rank, but ranks ", shared->sharing[0], " and ", shared->sharing[1],
             " share one (", shared->gpu.pci_id, "); start fewer, or use \"auto\"");
}

}  // namespace flotilla
