// SPDX-License-Identifier: Apache-2.0
#include "src/config/values.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/config/data_config.hpp"

namespace flotilla::config {
namespace {

template <class T>
std::string scalar_text(const T& value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string element_text(bool value) {
  return value ? "true" : "false";
}
std::string element_text(std::int64_t value) {
  return scalar_text(value);
}
std::string element_text(const std::string& value) {
  return config::quoted(value);
}
std::string element_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = scalar_text(value);
  // In TOML a float differs from an integer by its point or exponent.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <class T>
std::string element_text(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + element_text(value);
  return text + "]";
}

}  // namespace

std::string_view type_name(const Value& like) {
  static constexpr std::array<std::string_view, std::variant_size_v<Value>> names = {
      "true or false",        "an integer",          "a number",           "a string",
      "an array of integers", "an array of numbers", "an array of strings"};
  return names.at(like.index());
}

std::string toml_text(const Value& value) {
  if (const auto* const numbers = std::get_if<std::vector<double>>(&value);
      numbers != nullptr && is_auto(*numbers))
    return quoted("auto");
  return std::visit([](const auto& held) { return element_text(held); }, value);
}

bool is_utf8(std::string_view text) {
  try {
    [[maybe_unused]] const std::string written = nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string printable(std::string_view text) {
  static constexpr std::string_view digits = "0123456789ABCDEF";
  const bool shows_letters = is_utf8(text);
  std::string out;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x80 && !shows_letters) {
      ((out += "\\x") += digits[byte >> 4U]) += digits[byte & 0xFU];
    } else if (byte >= 0x20 && byte != 0x7F) {
      out += letter;
    } else {
      ((out += "\\u00") += digits[byte >> 4U]) += digits[byte & 0xFU];
    }
  }
  return out;
}

std::string quoted(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return '"' + printable(out) + '"';
}

std::string lower_case(std::string_view text) {
  std::string small(text);
  for (char& letter : small)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + ('a' - 'A'));
  return small;
}

}  // namespace flotilla::config
