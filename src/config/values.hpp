// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace flotilla::config {

/// The value of a key. Its type is that of the key's field in Config.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<double>, std::vector<std::string>>;

/// The name of the type of `like` for messages: "an integer", "an array of numbers".
std::string_view type_name(const Value& like);

/// The value as TOML; a number reads back to the same bits.
std::string toml_text(const Value& value);

/// The bytes that some editors put in front of UTF-8 text.
inline constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";

/// Whether `text` is UTF-8, as TOML and JSON require of all text.
bool is_utf8(std::string_view text);

/// `text` with control characters escaped, and what is not UTF-8 as bytes ("\\xFF"): fit for a message.
std::string printable(std::string_view text);

/// `text` as a TOML string: quotes around it, and whatever is not printable escaped.
std::string quoted(std::string_view text);

/// `text` with ASCII's letters in lower case.
std::string lower_case(std::string_view text);

}  // namespace flotilla::config
