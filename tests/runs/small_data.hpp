// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/config/random_deck.hpp"

namespace flotilla::test {

/// Writes data sets of 12 to 24 samples of every kind that a deck can name into `folder`.
void write_small_data(const std::string& folder);

/// A value for the keys that only fit with one another or with the data in `folder`: paths, names of arrays,
/// layers, patterns; and small sizes where large ones only take long. One of ten or so does not fit.
/// @param ranks of the job
OwnValue fitting_values(const std::string& folder, int ranks);

}  // namespace flotilla::test
