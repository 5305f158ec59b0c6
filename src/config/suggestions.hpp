// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flotilla::config {

/// Letters to insert, remove, replace or swap with their neighbour to turn `a` into `b` (Damerau and
/// Levenshtein's distance, each letter edited at most once).
std::size_t edit_distance(std::string_view a, std::string_view b);

struct Suggestion {
  std::string path;  ///< Of the key or table that was probably meant; empty: none is near
  std::string text;  ///< `; did you mean "momentum"?`, `; did you mean train.batch_size?` or empty
};

/// What was probably meant by the unknown path `table`.`name`. `table` is empty at the top level.
Suggestion suggest(std::string_view table, std::string_view name);

}  // namespace flotilla::config
