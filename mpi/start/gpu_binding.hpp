// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpus.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

/// The GPUs that one rank sees (all of its host or only its own, depending on the launcher), and the
/// processors that it may use.
struct GpuView {
  struct Gpu {
    std::string name{};
    std::string pci_id{};
    std::vector<int> near{};  ///< Processors close to it; empty: unknown
    friend bool operator==(const Gpu&, const Gpu&) = default;
  };
  std::vector<Gpu> gpus{};  ///< In the order of the rank's ordinals
  std::vector<int> own{};   ///< The rank's processors
  friend bool operator==(const GpuView&, const GpuView&) = default;
};

/// The view of this process. @param root in front of /sys; for tests
GpuView look_at_gpus(const std::vector<GpuInfo>& visible, const std::string& root = "");

/// Collective. The views of all ranks, in rank order.
std::vector<GpuView> all_gather(const Communicator& ranks, const GpuView& mine);

/// The GPU of each rank.
struct GpuBinding {
  struct Bound {
    int ordinal = 0;  ///< Index among the GPUs that the rank sees
    GpuView::Gpu gpu{};
    std::vector<int> sharing{};  ///< The ranks that use the GPU, this one included
    std::vector<int> own{};      ///< The rank's processors
  };
  std::vector<Bound> ranks{};  ///< In rank order; empty: no rank computes on a GPU

  /// The ordinal of the rank's GPU among those that it sees; 0 where no rank computes on a GPU
  int ordinal(int rank) const { return ranks.empty() ? 0 : ranks[static_cast<std::size_t>(rank)].ordinal; }
  bool shared() const;  ///< Whether a GPU has more than one rank, which NCCL refuses.
};

/// Assigns a GPU to every rank: the i-th of its host to the i-th rank, unless another free one is closer to
/// the processors that the rank is bound to. Ranks may see all GPUs of their host, their own only, or any
/// part. A pure function of what all ranks see.
/// @param share GPUs may have several ranks, as few as possible
/// @throws UserError naming ranks that see no GPU, or two that would share one
GpuBinding bind_gpus(const std::vector<Place>& places, const std::vector<GpuView>& views, bool share);

/// Warnings about the binding, a line for each kind of mistake with the remedy; empty: none.
std::vector<std::string> gpu_warnings(const std::vector<Place>& places, const GpuBinding& binding);

/// "8 × NVIDIA H100 80GB HBM3, one for each rank"
std::string describe_gpus(const GpuBinding& binding);

/// A heading and a line for each rank: rank, host, GPU, PCI id, processors.
std::vector<std::string> gpu_table(const std::vector<Place>& places, const GpuBinding& binding);

}  // namespace flotilla::mpi
