// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace flotilla {

/// Whether `text` is one finite number and nothing else, as "7", "+1" or "-2.5e3"; it is then in `number`.
bool read_number(std::string_view text, float& number);

}  // namespace flotilla
