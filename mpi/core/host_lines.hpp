// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
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

}  // namespace flotilla::mpi
