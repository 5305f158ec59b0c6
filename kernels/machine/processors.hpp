// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flotilla::mpi {

/// The processors of a host and which of them this process may use. Processors are hardware threads, numbered
/// as Linux does.
struct Processors {
  std::vector<int> own{};      ///< Processors in the affinity mask of this thread, ascending
  std::vector<int> sockets{};  ///< Sockets of `own`, ascending; empty: unknown, and the next two as well
  std::vector<int> nodes{};    ///< NUMA nodes of `own`
  int host_sockets = 0;        ///< Sockets of all processors of the host
  int host_nodes = 0;
  int allowed = 0;     ///< Processors that this process could be bound to: those of the job on this host
  double quota = 0.0;  ///< Processors' time that the control group allows; 0: no limit
  std::string quota_group{};  ///< The control group with that limit, a path in /sys; empty: none
  int gpus = 0;               ///< NVIDIA GPUs that the driver lists
};

/// The processors of the calling thread. What the system does not report stays 0 or empty.
/// @param root in front of /sys and /proc; for tests
/// @throws LibraryError if the affinity mask cannot be read
Processors find_processors(const std::string& root = "");

/// Parses "0-3,8" as Linux writes lists; empty for any other text.
std::vector<int> parse_processor_list(std::string_view text);

}  // namespace flotilla::mpi
