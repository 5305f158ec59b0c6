// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/rank_list.hpp"

#include <algorithm>
#include <charconv>

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

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
