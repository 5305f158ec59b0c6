// SPDX-License-Identifier: Apache-2.0
#include "src/commands/text_columns.hpp"

#include <algorithm>
#include <iomanip>

#include "src/config/values.hpp"

namespace flotilla {

void print_columns(std::ostream& out, std::vector<std::vector<std::string>> lines) {
  for (auto& line : lines)
    for (std::string& word : line) word = config::printable(word);
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto& line : lines) {
    out << std::left << std::setw(static_cast<int>(widths[0])) << line[0] << std::right;
    for (std::size_t i = 1; i < line.size(); ++i)
      out << std::setw(static_cast<int>(widths[i]) + 2) << line[i];
    out << '\n';
  }
}

}  // namespace flotilla
