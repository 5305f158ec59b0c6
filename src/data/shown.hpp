// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "src/config/values.hpp"

namespace flotilla {

/// Text of a data file in quotes, fit for a message: it may be a whole file by mistake.
inline std::string shown(std::string_view text) {
  constexpr std::size_t most = 120;
  return text.size() <= most ? config::quoted(text) : config::quoted(text.substr(0, most)) + " …";
}

/// A path fit for a message, also where what should be one is a whole line of a file.
inline std::string shown_path(std::string_view path) {
  constexpr std::size_t most = 1000;
  return path.size() <= most ? config::printable(path) : config::printable(path.substr(0, most)) + " …";
}

}  // namespace flotilla
