// SPDX-License-Identifier: Apache-2.0
#include "src/config/values.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

namespace flotilla::config {
namespace {

template <class T>
struct TypeOf {};

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

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse(std::string_view text, TypeOf<bool>) {
  text = trimmed(text);
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::optional<std::int64_t> parse(std::string_view text, TypeOf<std::int64_t>) {
  return parse_number<std::int64_t>(text);
}

std::optional<double> parse(std::string_view text, TypeOf<double>) {
  return parse_number<double>(text);
}

std::optional<std::string> parse(std::string_view text, TypeOf<std::string>) {
  const bool in_quotes =
      text.size() >= 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
  return std::string(in_quotes ? text.substr(1, text.size() - 2) : text);
}

template <class T>
std::optional<std::vector<T>> parse(std::string_view text, TypeOf<std::vector<T>>) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;  // "[]" is the empty array
  if (text.front() == '[') {
    if (text.size() < 2 || text.back() != ']') return std::nullopt;
    text = trimmed(text.substr(1, text.size() - 2));
  }
  std::vector<T> values;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto value = parse(trimmed(text.substr(0, comma)), TypeOf<T>{});
    if (!value) return std::nullopt;
    values.push_back(*value);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return values;
}

}  // namespace

std::string_view type_name(const Value& like) {
  static constexpr std::array<std::string_view, std::variant_size_v<Value>> names = {
      "true or false",        "an integer",          "a number",           "a string",
      "an array of integers", "an array of numbers", "an array of strings"};
  return names.at(like.index());
}

std::string toml_text(const Value& value) {
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

std::optional<Value> value_from_text(std::string_view text, const Value& like) {
  return std::visit(
      [text]<class T>(const T&) -> std::optional<Value> {
        if (auto value = parse(text, TypeOf<T>{})) return Value(std::move(*value));
        return std::nullopt;
      },
      like);
}

}  // namespace flotilla::config
