// SPDX-License-Identifier: Apache-2.0
#include "src/job/devices.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>

#include "kernels/cpu/native_precisions.hpp"
#include "kernels/error.hpp"
#include "kernels/gpus.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

mpi::GpuBinding find_gpus(const DeviceConfig& device, const mpi::Communicator& workers,
                          const std::vector<mpi::Place>& places) {
  if (device.kind != DeviceKind::cuda) return {};
  mpi::GpuView mine;
  agree(workers, places, [&] { mine = mpi::look_at_gpus(visible_gpus()); });
  const std::vector<mpi::GpuView> views = mpi::all_gather(workers, mine);
  mpi::GpuBinding binding;
  throw_alike([&] { binding = mpi::bind_gpus(places, views, device.share); });
  return binding;
}

Precision choose_precision(DevicePrecision precision, const std::vector<std::int64_t>& faster,
                           const std::vector<mpi::Place>& places) {
  if (precision != DevicePrecision::automatic) return static_cast<Precision>(precision);
  std::set<std::string> with;
  std::set<std::string> without;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    (faster[rank] != 0 ? with : without).insert(places[rank].host);
  if (with.empty()) return Precision::float32;
  if (without.empty()) return Precision::bfloat16;
  const auto text = [](const std::set<std::string>& hosts) {
    return mpi::text_of_hosts({hosts.begin(), hosts.end()});
  };
  throw UserError(cat("device.precision = \"auto\": the processors of ", text(with),
                      " are faster in bfloat16, those of ", text(without),
                      " are not; ask for hosts of one kind, or set device.precision = \"float32\""));
}

Precision find_precision(const DeviceConfig& device, const mpi::Communicator& workers,
                         const std::vector<mpi::Place>& places) {
  const std::int64_t faster = is_faster_in_bfloat16() ? 1 : 0;
  const std::vector<std::int64_t> all = workers.all_gather(std::span(&faster, 1));
  Precision precision{};
  throw_alike([&] { precision = choose_precision(device.precision, all, places); });
  return precision;
}

std::string no_nccl(const mpi::GpuBinding& gpus, bool built) {
  if (gpus.ranks.empty()) return "needs device.kind = \"cuda\"";
  if (!built)
    return "needs NCCL, and this build has no NCCL: configure it with -DFLOTILLA_NCCL=ON (NCCL_ROOT: where "
           "it "
           "is), or use \"auto\"";
  const auto shared =
      std::ranges::find_if(gpus.ranks, [](const auto& bound) { return bound.sharing.size() > 1; });
  if (shared == gpus.ranks.end()) return "";
  return cat("needs a GPU for each rank, but ranks ", shared->sharing[0], " and ", shared->sharing[1],
             " share one (", shared->gpu.pci_id, "); start fewer, or use \"auto\"");
}

std::unique_ptr<Device> make_device(const DeviceConfig& device, Precision precision, const mpi::Place& place,
                                    int gpu, bool reproducible) {
  const auto threads = device.threads > 0 ? device.threads : mpi::default_threads(place);
  return make_device({.kind = std::string(word(device.kind)),
                      .threads = static_cast<int>(threads),
                      .precision = precision,
                      .winograd = device.convolution == ConvolutionAlgorithm::winograd
                                      ? WinogradUse::where_faster
                                      : WinogradUse::never,
                      .ordinal = gpu,
                      .tf32 = device.tf32,
                      .reproducible = reproducible,
                      .workspace_bytes = static_cast<std::size_t>(device.workspace_mb) << 20U,
                      .graphs = device.graphs});
}

}  // namespace flotilla
