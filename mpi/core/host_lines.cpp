// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/host_lines.hpp"

#include <algorithm>
#include <charconv>
#include <iomanip>
#include <optional>
#include <sstream>

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::size_t max_rows_told = 4;

/// "node0" and 17 of "node017".
struct NumberedName {
  std::string stem;
  long long number = 0;
};

std::optional<NumberedName> take_apart(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::size_t begin = last == name.npos ? 0 : last + 1;
  const std::string digits = name.substr(begin);
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  const std::size_t zeros = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  return NumberedName{name.substr(0, begin + zeros), std::stoll(digits)};
}

bool follows(const std::string& name, const std::string& before) {
  const auto a = take_apart(before);
  const auto b = take_apart(name);
  // "n09" is followed by "n10".
  return a && b && b->number == a->number + 1 &&
         (b->stem == a->stem || (name.size() == before.size() && a->stem.starts_with(b->stem)));
}

std::string cores_of(const std::vector<const Place*>& ranks) {
  const auto [least, most] = std::ranges::minmax(ranks, {}, [](const Place* place) { return place->cores; });
  const bool alike = least->cores == most->cores;
  const bool apart =
      std::ranges::all_of(ranks, [](const Place* place) { return place->cores_shared_by == 1; });
  const bool together = std::ranges::all_of(
      ranks, [&](const Place* place) { return place->cores_shared_by == static_cast<int>(ranks.size()); });
  if (ranks.size() == 1) return counted(least->cores, "core");
  if (!alike) return cat(least->cores, " to ", counted(most->cores, "core"), " per rank");
  if (apart) return counted(least->cores, "core") + " per rank";
  return counted(least->cores, "core") + (together ? " shared by them" : " per rank, some shared");
}

/// All about a host but its name.
std::string facts_of(const std::vector<const Place*>& ranks) {
  const Place& first = *ranks.front();
  std::string text = ", " + cores_of(ranks);
  if (first.sockets > 0) text += ", " + counted(first.sockets, "socket");
  if (first.nodes > 0 && first.nodes != first.sockets) text += ", " + counted(first.nodes, "NUMA node");
  if (first.gpus > 0) text += ", " + counted(first.gpus, "GPU");
  if (first.quota > 0.0) text += cat(", no more than ", short_text(first.quota), " cores' time");
  return text;
}

struct Kind {
  std::size_t ranks = 0;
  std::string facts;
  std::vector<std::string> names;
};

constexpr std::string_view blanks = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

int parse_rank(std::string_view word, int ranks, std::string_view whole, std::string_view key) {
  int rank = 0;
  const auto [stop, failure] = std::from_chars(word.data(), word.data() + word.size(), rank);
  if (failure == std::errc::result_out_of_range) rank = ranks;
  if (failure == std::errc::invalid_argument || stop != word.data() + word.size() || word.front() == '-') {
    throw UserError(
        cat(key, " must be ranks and ranges of them between commas, like \"0, 4-7\"; got \"", whole, "\""));
  }
  if (rank >= ranks) {
    throw UserError(cat(key, " names rank ", word, ", but there are only ranks 0 to ", ranks - 1,
                        "; correct it or start more ranks"));
  }
  return rank;
}

}  // namespace

std::string short_text(double value) {
  std::ostringstream text;
  text << std::setprecision(3) << value;
  return text.str();
}

std::string counted(std::int64_t number, const char* what) {
  return cat(number, " ", what, number == 1 ? "" : "s");
}

std::string text_of_hosts(const std::vector<std::string>& names) {
  std::string text;
  std::size_t rows = 0;
  for (std::size_t begin = 0; begin < names.size();) {
    if (rows++ == max_rows_told) return cat(text, " and ", names.size() - begin, " more");
    std::size_t end = begin + 1;
    while (end < names.size() && follows(names[end], names[end - 1])) ++end;
    text += (begin == 0 ? "" : ", ") + names[begin];
    if (end - begin > 1) text += (end - begin == 2 ? ", " : "…") + names[end - 1];
    begin = end;
  }
  return text;
}

std::vector<std::string> names_of_hosts(const std::vector<Place>& places) {
  std::vector<std::string> names(static_cast<std::size_t>(hosts(places)));
  for (const Place& place : places) names[static_cast<std::size_t>(place.host_index)] = place.host;
  return names;
}

std::vector<std::string> describe_hosts(const std::vector<Place>& places) {
  std::vector<std::vector<const Place*>> on_host(static_cast<std::size_t>(hosts(places)));
  for (const Place& place : places) on_host[static_cast<std::size_t>(place.host_index)].push_back(&place);
  std::vector<Kind> kinds;
  for (const auto& ranks : on_host) {
    const std::string facts = facts_of(ranks);
    auto kind = std::ranges::find_if(
        kinds, [&](const Kind& known) { return known.ranks == ranks.size() && known.facts == facts; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {ranks.size(), facts, {}});
    kind->names.push_back(ranks.front()->host);
  }
  if (on_host.size() == 1) return {cat(places.size(), " on ", places.front().host, kinds.front().facts)};

  const auto line = [](const Kind& kind) {
    return cat(text_of_hosts(kind.names), ": ", kind.ranks, kind.ranks == 1 ? " rank" : " ranks",
               kind.names.size() == 1 ? "" : " each", kind.facts);
  };
  const std::string sum = cat(places.size(), " on ", on_host.size(), " hosts");
  if (kinds.size() == 1) return {cat(sum, " ", line(kinds.front()))};
  std::vector<std::string> lines{sum};
  for (const Kind& kind : kinds) lines.push_back("  " + line(kind));
  return lines;
}

std::vector<int> parse_ranks(std::string_view text, int ranks, std::string_view key) {
  std::vector<int> found;
  if (trimmed(text).empty()) return found;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = trimmed(text.substr(begin, end - begin));
    const std::size_t dash = item.find('-');
    const int first = parse_rank(trimmed(item.substr(0, dash)), ranks, text, key);
    const int last = dash == item.npos ? first : parse_rank(trimmed(item.substr(dash + 1)), ranks, text, key);
    if (last < first)
      throw UserError(cat(key, ": the range ", item, " ends before it begins; write ", last, "-", first));
    for (int rank = first; rank <= last; ++rank) found.push_back(rank);
    begin = end + 1;
  }
  std::ranges::sort(found);
  const auto twice = std::ranges::adjacent_find(found);
  if (twice != found.end()) throw UserError(cat(key, " names rank ", *twice, " twice; take it out once"));
  return found;
}

std::string text_of_ranks(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += cat(begin == 0 ? "" : ", ", ranks[begin]);
    if (end - begin > 1) text += cat("-", ranks[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace flotilla::mpi
