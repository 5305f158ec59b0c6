// SPDX-License-Identifier: Apache-2.0
#include "src/data/left_out.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "kernels/error.hpp"
#include "src/data/shown.hpp"

namespace flotilla {

void LeftOut::add(std::string_view what, std::string_view example, std::string_view advice,
                  std::int64_t count) {
  auto kind = std::ranges::find(kinds_, what, &Kind::what);
  if (kind == kinds_.end())
    kind = kinds_.insert(kind, {std::string(what), std::string(example), std::string(advice)});
  kind->count += count;
}

void LeftOut::add(const LeftOut& more) {
  for (const Kind& kind : more.kinds_) add(kind.what, kind.example, kind.advice, kind.count);
}

std::string LeftOut::text() const {
  std::string text;
  for (const Kind& kind : kinds_)
    text += cat(text.empty() ? "; left out: " : ", ", kind.count, " ", kind.what,
                kind.count == 1 ? " (" : "s (", shown(kind.example), kind.count == 1 ? "" : " …",
                kind.advice.empty() ? "" : "; ", kind.advice, ")");
  return text;
}

std::string LeftOut::lines() const {
  std::string text;
  for (const Kind& kind : kinds_)
    text += cat(kind.count, '\t', kind.what, '\t', config::printable(kind.example), '\t', kind.advice, '\n');
  return text;
}

bool LeftOut::add_line(std::string_view line) {
  std::array<std::string_view, 4> fields;
  for (std::string_view& field : fields) {
    field = line.substr(0, line.find('\t'));
    line.remove_prefix(std::min(field.size() + 1, line.size()));
  }
  std::int64_t count = 0;
  const auto [stop, error] = std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), count);
  if (error != std::errc() || stop != fields[0].data() + fields[0].size()) return false;
  add(fields[1], fields[2], fields[3], count);
  return true;
}

}  // namespace flotilla
