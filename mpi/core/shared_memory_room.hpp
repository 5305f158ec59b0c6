// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Collective over `all`. Whether each host has enough shared memory for the windows that its ranks of `all`
/// are about to make: missing memory shows only at the first touch, as SIGBUS.
/// @param bytes of this rank's part; 0: it makes no window @param remedy what else the user may set
/// @returns empty, or, equal on every rank, which host lacks how much, naming /dev/shm and the remedy.
std::string missing_shared_memory(const Communicator& all, std::size_t bytes,
                                  std::string_view remedy = "strategy.all_reduce = \"mpi\"");

}  // namespace flotilla::mpi
