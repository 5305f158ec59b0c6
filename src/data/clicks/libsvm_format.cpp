// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <system_error>

#include "kernels/error.hpp"
#include "src/data/clicks/fields.hpp"
#include "src/data/clicks/line_format.hpp"
#include "src/data/shown.hpp"

namespace flotilla {

namespace {

constexpr std::string_view blanks = " \t";

std::string_view without_comment(std::string_view line) {
  return line.substr(0, line.find('#'));
}

/// Takes the next word off the line; empty at its end.
std::string_view take_word(std::string_view& rest) {
  const std::size_t begin = rest.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return rest = {};
  rest.remove_prefix(begin);
  const std::string_view word = rest.substr(0, rest.find_first_of(blanks));
  rest.remove_prefix(word.size());
  return word;
}

bool is_index(std::string_view text) {
  std::uint64_t index = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, index);
  return stop == end && error == std::errc{};
}

int label_of(std::string_view word) {
  float value = 0.0F;
  if (read_number(word, value) && (value == 1.0F || value == 0.0F || value == -1.0F || value == 2.0F))
    return static_cast<int>(value);
  throw UserError(
      cat("the label must be one of two classes, -1 and +1, 0 and 1, or 1 and 2, got ", shown(word)));
}

class LibsvmFormat final : public LineFormat {
 public:
  LibsvmFormat(std::uint64_t hash_buckets, bool labelled)
      : hash_buckets_(hash_buckets), labelled_(labelled) {}

  std::string_view name() const override { return "LIBSVM"; }
  std::int64_t dense() const override { return 0; }
  std::int64_t slots() const override { return 1; }
  bool weighted() const override { return true; }
  bool labelled() const override { return labelled_; }

  bool is_sample(std::string_view line) const override {
    const std::size_t first = line.find_first_not_of(blanks);
    return first != std::string_view::npos && line[first] != '#';
  }

  int label(std::string_view line) const override {
    line = without_comment(line);
    return take_label(line);
  }

  std::int32_t parse(std::string_view line, std::span<float> /*dense*/, BagBuffer& bags) const override {
    line = without_comment(line);
    const int label_value = take_label(line);
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) add_pair(word, bags);
    bags.end_bag();
    return std::max(label_value, 0);
  }

 private:
  /// Takes the label off the line, if there is one.
  int take_label(std::string_view& line) const {
    const std::string_view before = line;
    const std::string_view word = take_word(line);
    if (labelled_) return label_of(word);
    if (word.find(':') != std::string_view::npos) line = before;
    return 0;
  }

  void add_pair(std::string_view word, BagBuffer& bags) const {
    const std::size_t colon = word.find(':');
    std::string_view index = word.substr(0, colon);
    if (index == "qid")
      throw UserError(cat(shown(word), " is for ranking, which is not done here; leave it out"));
    if (colon == std::string_view::npos || !is_index(index)) {
      throw UserError(cat("after the label come index:value pairs, the index a whole number from 0 on, got ",
                          shown(word)));
    }
    float value = 0.0F;
    if (!read_number(word.substr(colon + 1), value))
      throw UserError(cat("the value of an index must be a number, got ", shown(word)));
    // "7" and "007" are one index.
    while (index.size() > 1 && index.front() == '0') index.remove_prefix(1);
    bags.add(category_id(0, index, hash_buckets_), value);
  }

  std::uint64_t hash_buckets_;
  bool labelled_;
};

}  // namespace

std::unique_ptr<LineFormat> make_libsvm_format(std::uint64_t hash_buckets, bool labelled) {
  return std::make_unique<LibsvmFormat>(hash_buckets, labelled);
}

}  // namespace flotilla
