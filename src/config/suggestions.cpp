// SPDX-License-Identifier: Apache-2.0
#include "src/config/suggestions.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "src/config/key_search.hpp"
#include "src/config/values.hpp"

namespace flotilla::config {
namespace {

constexpr std::size_t farthest = 2;
constexpr std::size_t longest_name = 64;  // A longer one is no slip of the finger

bool near(std::string_view a, std::string_view b, std::size_t limit) {
  if (a.size() > longest_name) return false;
  // Two edits turn any word of three letters into many others.
  const std::size_t allowed = std::min(limit, std::max(a.size(), b.size()) / 2);
  // Most names differ more in length alone.
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > allowed) return false;
  return edit_distance(a, b, allowed) <= allowed;
}

/// The names of the keys and tables in a table.
std::vector<std::string> names_in(std::string_view table) {
  const std::string prefix = table.empty() ? "" : std::string(table) + ".";
  std::set<std::string> names;
  for (const Key& key : all_keys()) {
    if (!key.path.starts_with(prefix)) continue;
    const std::string rest = key.path.substr(prefix.size());
    names.insert(rest.substr(0, rest.find('.')));
  }
  return {names.begin(), names.end()};
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  std::vector<std::size_t> before(b.size() + 1);  // Distances of the row above the last one
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::size_t min_of_last = 0;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (least > limit && min_of_last > limit) return limit + 1;
    min_of_last = least;
  }
  return row[b.size()];
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  for (const std::string& other : known)
    if (near(word, other, farthest) &&
        (best.empty() || edit_distance(word, other) < edit_distance(word, best)))
      best = other;
  return best;
}

Suggestion suggest(std::string_view table, std::string_view name) {
  const std::string prefix = table.empty() ? "" : std::string(table) + ".";
  const std::string best = nearest_word(name, names_in(table));
  if (!best.empty()) return {prefix + best, "; did you mean " + config::quoted(best) + "?"};

  // Keys of other tables: the whole path with a typo in it, or the name itself.
  std::vector<std::string> found;
  const std::string path = prefix + std::string(name);
  for (const Key& key : all_keys()) {
    if (near(path, key.path, farthest)) found.push_back(key.path);
  }
  for (const std::size_t limit : {std::size_t{0}, std::size_t{1}}) {
    if (!found.empty()) break;
    for (const Key& key : all_keys()) {
      if (near(name, key.name(), limit)) found.push_back(key.path);
    }
  }
  if (found.empty())
    if (const auto foreign = keys_called(name); !foreign.empty()) found.push_back(foreign.front()->path);
  // A name that many tables have ("kind") says nothing.
  if (found.empty() || found.size() > 2) return {};
  return {found.front(), "; did you mean " + found.front() + "?"};
}

}  // namespace flotilla::config
