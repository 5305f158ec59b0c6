// SPDX-License-Identifier: Apache-2.0
#include "src/commands/size_text.hpp"

#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>

#include "kernels/error.hpp"

namespace flotilla {

std::int64_t bytes_from_text(const std::string& text) {
  static const std::map<std::string_view, std::int64_t> units = {
      {"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (rest.ends_with("iB") && rest.size() == 3) rest.remove_suffix(2);
  if (rest.ends_with("B")) rest.remove_suffix(1);
  const auto unit = units.find(rest);
  if (error != std::errc{} || unit == units.end() || number <= 0 ||
      number > std::numeric_limits<std::int64_t>::max() / unit->second) {
    throw UserError(cat("a size must be a positive number of bytes, as 512, 1K or 64M, got ", text));
  }
  return number * unit->second;
}

}  // namespace flotilla
