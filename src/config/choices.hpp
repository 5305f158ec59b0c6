// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string_view>

#include "kernels/error.hpp"
#include "kernels/flat_math.hpp"

/// The keys of a deck whose values are words: an enum each, and beside it its words as decks, messages and
/// resolved decks have them.
namespace flotilla {

/// A value of an enum and its word.
template <class E>
struct Choice {
  E value;
  std::string_view word;
};

/// The words of an enum's first values, in the order of their declaration.
template <class E, class... Words>
consteval std::array<Choice<E>, sizeof...(Words)> choices_of(Words... words) {
  int next = 0;
  return {Choice<E>{static_cast<E>(next++), words}...};
}

/// The table of an enum, in the order of messages.
template <class E>
inline constexpr auto choices = choices_of<E>();

/// The word of a value. @throws InternalError if the table lacks it
template <class E>
std::string_view word(E value) {
  const auto found = std::ranges::find(choices<E>, value, &Choice<E>::value);
  require(found != choices<E>.end(), "there is no word for value ", static_cast<int>(value), " of an option");
  return found->word;
}

/// The value that a word stands for. @throws InternalError if the table lacks it
template <class E>
E choice(std::string_view word) {
  const auto found = std::ranges::find(choices<E>, word, &Choice<E>::word);
  require(found != choices<E>.end(), "no option is called \"", word, "\"");
  return found->value;
}

/// Prints the word.
template <class E>
requires(!choices<E>.empty()) std::ostream& operator<<(std::ostream& out, E value) {
  return out << word(value);
}

enum class OptimizerKind { sgd, momentum, nesterov, lars, lamb, adam, adamw, adagrad };
template <>
inline constexpr auto choices<OptimizerKind> = choices_of<OptimizerKind>("sgd", "momentum", "nesterov",
                                                                         "lars", "lamb", "adam", "adamw",
                                                                         "adagrad");

template <>
inline constexpr auto choices<Decay> = choices_of<Decay>("coupled", "decoupled");

/// Parameters that optimizer.no_decay excepts.
enum class NoDecay { biases, batch_norm };
template <>
inline constexpr auto choices<NoDecay> = choices_of<NoDecay>("biases", "batch_norm");

enum class ScheduleKind { constant, piecewise, cosine, linear };
template <>
inline constexpr auto choices<ScheduleKind> = choices_of<ScheduleKind>("constant", "piecewise", "cosine",
                                                                       "linear");

}  // namespace flotilla
