// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace flotilla {

/// Prints lines of as many words as the first, in columns as wide as they need, the first one to the left;
/// control characters of names that come from files are escaped.
void print_columns(std::ostream& out, std::vector<std::vector<std::string>> lines);

}  // namespace flotilla
