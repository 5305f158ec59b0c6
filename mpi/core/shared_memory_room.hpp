// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Largest part of a rank in a window, bytes: larger than the memory of any machine; keeps the sum over a
/// host's ranks in 64 bits.
constexpr std::size_t largest_window_part = std::size_t{1} << 44;

/// Collective over `all`. Whether each host has enough shared memory for the windows that its ranks of `all`
/// are about to make: missing memory shows only at the first touch, as SIGBUS.
/// @param bytes of this rank's part; 0: it makes no window @param remedy what else the user may set
/// @returns empty, or, equal on every rank, which host lacks how much, naming /dev/shm and the remedy.
std::string missing_shared_memory(const Communicator& all, std::size_t bytes,
                                  std::string_view remedy = "strategy.all_reduce = \"mpi\"");

}  // namespace flotilla::mpi
