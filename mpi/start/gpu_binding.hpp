// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/topology.hpp"
#include "mpi/start/gpu_view.hpp"

namespace flotilla::mpi {

/// The GPU of each rank.
struct GpuBinding {
  struct Bound {
    int ordinal = 0;  ///< Among those that the rank sees
    GpuView::Gpu gpu{};
    std::vector<int> sharing{};  ///< The ranks on it, this one included
    std::vector<int> own{};      ///< The rank's processors
  };
  std::vector<Bound> ranks{};  ///< As the places; empty: nobody computes on a GPU

  /// 0 where nobody computes on a GPU
  int ordinal(int rank) const { return ranks.empty() ? 0 : ranks[static_cast<std::size_t>(rank)].ordinal; }
  bool shared() const;  ///< Whether a GPU has more than one rank, which NCCL refuses.
};

/// Gives every rank a GPU: number i of a host's ranks the i-th one, unless another that is free is next to
/// the processors that the rank is bound to. Ranks may see all GPUs of their host, their own only, or any
/// part. A pure function of what all ranks see.
/// @param share GPUs may have several ranks, as few as can be
/// @throws UserError naming ranks that see no GPU, or two that would share one
GpuBinding bind_gpus(const std::vector<Place>& places, const std::vector<GpuView>& views, bool share);

/// What is wrong with it, a line for each kind of mistake with the remedy; empty where all is well.
std::vector<std::string> gpu_warnings(const std::vector<Place>& places, const GpuBinding& binding);

/// "8 × NVIDIA H100 80GB HBM3, one for each rank"
std::string describe_gpus(const GpuBinding& binding);

/// A heading and a line for each rank: rank, host, GPU, PCI id, processors.
std::vector<std::string> gpu_table(const std::vector<Place>& places, const GpuBinding& binding);

}  // namespace flotilla::mpi
