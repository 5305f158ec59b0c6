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

}  // namespace flotilla
