// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flotilla::mpi {

/// Ranks and ranges of them between commas, "0, 4-7", in ascending order; none in an empty text.
/// @throws UserError naming `key` if it is written otherwise, names a rank twice or one that is not in 0 …
/// ranks − 1
std::vector<int> parse_ranks(std::string_view text, int ranks, std::string_view key);

/// The text of ascending ranks: "0, 4-7".
std::string text_of_ranks(const std::vector<int>& ranks);

}  // namespace flotilla::mpi
