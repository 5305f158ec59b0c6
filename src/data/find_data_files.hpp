// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

/// Whether `a` comes before `b` where numbers in names count as numbers: day_2 before day_10.
bool comes_before(std::string_view a, std::string_view b);

/// The files that `path` names: itself, those of the folder (without hidden ones and folders), or those that
/// match its wildcards "*", "?" and "[…]", in the order of comes_before.
/// @throws UserError if there is none
std::vector<std::string> find_data_files(const std::string& path);

}  // namespace flotilla
