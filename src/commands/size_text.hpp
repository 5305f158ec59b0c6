// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

/// "64", "1K", "64M", "1G", with or without "B" or "iB": K is 1,024. @throws UserError for anything else.
std::int64_t bytes_from_text(const std::string& text);

}  // namespace flotilla
