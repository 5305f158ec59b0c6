// SPDX-License-Identifier: Apache-2.0
#include "src/config/mistakes.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "src/config/values.hpp"

namespace flotilla::config {
namespace {

/// The order of mistakes: those in the deck's text, keys missing from it, the command line.
std::tuple<bool, std::int64_t, std::int64_t> rank(const Origin& origin) {
  const DeckPosition& at = origin.position;
  const std::int64_t line = at.line == 0 ? std::numeric_limits<std::int64_t>::max() : at.line;
  return {origin.from_override(), line, at.column};
}

std::string list_of(const std::string& what, const std::vector<std::string>& lines) {
  std::string text = cat("the ", what, " has ", lines.size(), lines.size() == 1 ? " mistake:" : " mistakes:");
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

}  // namespace

MistakesError::MistakesError(const std::string& what, std::vector<std::string> each)
    : UserError(list_of(what, each)), lines(std::move(each)) {}

std::string place_of(const std::string& file, const Origin& origin) {
  if (!origin.file.empty()) return origin.file;
  if (origin.from_override()) return "command line: " + printable(origin.override);
  if (origin.position.line == 0) return file;
  return cat(file, ":", origin.position.line, ":", origin.position.column);
}

void Mistakes::add(const Origin& origin, const std::string& text) {
  found_.push_back({origin, text});
}

std::vector<std::string> Mistakes::lines() const {
  std::vector<Mistake> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Mistake& a, const Mistake& b) { return rank(a.origin) < rank(b.origin); });
  std::vector<std::string> lines;
  for (const Mistake& mistake : sorted)
    lines.push_back(cat(place_of(file_, mistake.origin), ": ", mistake.text));
  return lines;
}

void Mistakes::throw_if_any() const {
  if (!found_.empty()) throw MistakesError("deck", lines());
}

}  // namespace flotilla::config
