// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string_view>
#include <type_traits>

#include "kernels/device.hpp"
#include "kernels/error.hpp"

namespace flotilla {

/// The words of an enum as decks, messages and resolved decks have them, in the order of its enumerators. An
/// enum whose values are words of a deck specialises it next to its definition:
///
///     template <>
///     inline constexpr auto words_of<LastBatch> = deck_words("wrap", "drop");
template <class E>
inline constexpr std::array<std::string_view, 0> words_of{};

consteval auto deck_words(auto... words) {
  return std::array{std::string_view(words)...};
}

// Enums of the kernels.
template <>
inline constexpr auto words_of<Precision> = deck_words("float32", "float16", "bfloat16");
template <>
inline constexpr auto words_of<Tf32> = deck_words("none", "convolutions", "all");
template <>
inline constexpr auto words_of<Activation> = activation_words;

/// An enum that has words.
template <class E>
concept Choice = std::is_enum_v<E> && !words_of<E>.empty();

template <Choice E>
std::string_view word(E value) {
  return words_of<E>[static_cast<std::size_t>(value)];
}

template <Choice E>
std::ostream& operator<<(std::ostream& out, E value) {
  return out << word(value);
}

/// The value that a word stands for. @throws InternalError if there is none
template <Choice E>
E choice(std::string_view word) {
  const auto found = std::ranges::find(words_of<E>, word);
  require(found != words_of<E>.end(), "no option is called \"", word, "\"");
  return static_cast<E>(found - words_of<E>.begin());
}

}  // namespace flotilla
