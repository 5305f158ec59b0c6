// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::config {

/// Letters to insert, remove, replace or swap with their neighbour to turn `a` into `b` (Damerau and
/// Levenshtein's distance, each letter edited at most once). @param limit a larger distance may be given as
/// limit + 1, which is known sooner
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit = 1000);

/// The one of `known` that `word` is likely a slip of: at most two edits away, and at most half its length.
/// Empty: there is none.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

struct Suggestion {
  std::string path;  ///< Path of the most similar key or table; empty: none is similar
  std::string text;  ///< `; did you mean "momentum"?`, `; did you mean train.batch_size?` or empty
};

/// The most similar key or table to the unknown path `table`.`name`. `table` is empty at the top level.
Suggestion suggest(std::string_view table, std::string_view name);

}  // namespace flotilla::config
