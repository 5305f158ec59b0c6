// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpus.hpp"
#include "mpi/core/communicator.hpp"

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

}  // namespace flotilla::mpi
