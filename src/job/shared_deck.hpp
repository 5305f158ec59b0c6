// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/config/deck.hpp"

namespace flotilla {

/// Collective. Rank 0 reads the file, every rank checks the text that it read.
LoadedDeck load_deck_everywhere(const std::string& path, const std::vector<std::string>& overrides,
                                const mpi::Communicator& world);

}  // namespace flotilla
