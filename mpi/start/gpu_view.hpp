// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpus.hpp"
#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// The GPUs that one rank sees, and the processors that it may use. All of a host's, or its own only: as the
/// launcher decides.
struct GpuView {
  struct Gpu {
    std::string name{};
    std::string pci_id{};
    std::vector<int> near{};  ///< Processors next to it; empty: not known
    friend bool operator==(const Gpu&, const Gpu&) = default;
  };
  std::vector<Gpu> gpus{};  ///< In the order of the rank's ordinals
  std::vector<int> own{};   ///< The rank's processors
  friend bool operator==(const GpuView&, const GpuView&) = default;
};

/// Of this process. @param root in front of /sys; for tests
GpuView look_at_gpus(const std::vector<GpuInfo>& visible, const std::string& root = "");

/// Collective. In rank order.
std::vector<GpuView> all_gather(const Communicator& ranks, const GpuView& mine);

}  // namespace flotilla::mpi
