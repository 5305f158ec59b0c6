// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace flotilla {

/// Prints lines of as many words as the first, in columns as wide as they need, the first one to the left.
void print_columns(std::ostream& out, const std::vector<std::vector<std::string>>& lines);

}  // namespace flotilla
