// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

std::string short_text(double value);  ///< Three digits: "1.25".

/// "1 rank", "2 ranks": for words whose plural ends in s.
std::string counted(std::int64_t number, const char* what);

/// "h0…h3, n7": names with consecutive numbers are contracted, and of many only the first are listed.
std::string text_of_hosts(const std::vector<std::string>& names);

/// The names of the hosts, in their order.
std::vector<std::string> names_of_hosts(const std::vector<Place>& places);

/// Describes where the ranks run: "8 on 4 hosts h0…h3: 2 ranks each, 4 cores per rank, 1 socket"; where hosts
/// differ, a line of totals and one for each kind of host.
std::vector<std::string> describe_hosts(const std::vector<Place>& places);

/// Ranks and ranges of them between commas, "0, 4-7", in ascending order; none in an empty text.
/// @throws UserError naming `key` if it is written otherwise, names a rank twice or one that is not in 0 …
/// ranks − 1
std::vector<int> parse_ranks(std::string_view text, int ranks, std::string_view key);

/// The text of ascending ranks: "0, 4-7".
std::string text_of_ranks(const std::vector<int>& ranks);

}  // namespace flotilla::mpi
