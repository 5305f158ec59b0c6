// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace flotilla {

/// Fields one behind another in a string, for another process of the same program: numbers as they lie in
/// memory, texts behind their length. They are taken in the order in which they were added.

template <class T>
void add_number(std::string& packed, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  packed.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
T take_number(std::string_view& packed) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  packed.copy(reinterpret_cast<char*>(&value), sizeof(value));
  packed.remove_prefix(sizeof(value));
  return value;
}

inline void add_text(std::string& packed, std::string_view text) {
  add_number(packed, text.size());
  packed += text;
}

inline std::string_view take_text(std::string_view& packed) {
  const auto size = take_number<std::size_t>(packed);
  const std::string_view text = packed.substr(0, size);
  packed.remove_prefix(text.size());
  return text;
}

template <class T>
void add_vector(std::string& packed, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  add_text(packed, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

template <class T>
std::vector<T> take_vector(std::string_view& packed) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::string_view text = take_text(packed);
  std::vector<T> values(text.size() / sizeof(T));
  text.copy(reinterpret_cast<char*>(values.data()), text.size());
  return values;
}

}  // namespace flotilla
