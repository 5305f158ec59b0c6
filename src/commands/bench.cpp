// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench.hpp"

#include <fmt/format.h>

#include "kernels/error.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

void print_figures(const std::vector<Figure>& figures, const std::string& why_invalid) {
  std::string line = "figure";
  for (const Figure& figure : figures) line += fmt::format(" {}={:.6g}", figure.name, figure.value);
  print_line(line);
  print_line(why_invalid.empty() ? "valid: yes" : cat("valid: no: ", why_invalid));
}

}  // namespace flotilla
