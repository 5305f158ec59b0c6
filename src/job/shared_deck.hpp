// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/config/deck.hpp"

namespace flotilla {

/// Collective. Throws an AgreedFailure that names the key if a rank has another value of one than rank 0, as
/// arguments that depend on the rank or its host would give it. Paths may differ, and what a host has of
/// threads and memory.
void check_same_deck(const Config& config, const mpi::Communicator& world);

/// Collective. Rank 0 reads the file, every rank checks the text that it read, with its own overrides, as
/// check_same_deck().
LoadedDeck load_deck_everywhere(const std::string& path, const std::vector<std::string>& overrides,
                                const mpi::Communicator& world);

}  // namespace flotilla
