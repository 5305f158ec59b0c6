// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench.hpp"

#include <fmt/format.h>

#include "kernels/error.hpp"
#include "src/files/atomic_file.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

void hand_over(const std::string& json, const std::string& file, std::string* text) {
  if (!file.empty()) write_text_file_atomically(file, json + "\n");
  if (text != nullptr) *text = json;
}

void print_figures(const std::vector<Figure>& figures, const std::string& why_invalid) {
  std::string line = "figure";
  for (const Figure& figure : figures) line += fmt::format(" {}={:.6g}", figure.name, figure.value);
  print_line(line);
  print_line(why_invalid.empty() ? "valid: yes" : cat("valid: no: ", why_invalid));
}

}  // namespace flotilla
