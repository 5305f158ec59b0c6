// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/line_format.hpp"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <system_error>

#include "kernels/error.hpp"
#include "src/data/mistake_list.hpp"

namespace flotilla {

std::uint64_t category_id(std::int64_t slot, std::string_view text, std::uint64_t buckets) {
  const std::uint64_t hash = XXH3_64bits_withSeed(text.data(), text.size(), static_cast<std::uint64_t>(slot));
  return buckets == 0 ? hash : hash % buckets;
}

bool read_number(std::string_view text, float& number) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  // Nearly all are whole, and those read much faster.
  std::int64_t whole = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, whole);
  if (stop == end && error == std::errc{}) {
    number = static_cast<float>(whole);
    return true;
  }
  double value = 0.0;
  const auto [second_stop, second_error] = std::from_chars(text.data(), end, value);
  if (second_stop != end || second_error != std::errc{}) return false;
  if (!(std::abs(value) <= double{std::numeric_limits<float>::max()})) return false;  // NaN too
  number = static_cast<float>(value);
  return true;
}

namespace {

constexpr std::int64_t columns = 1 + criteo_numbers + criteo_categories;

/// Removes the text before the next tab from the line, or the rest of the line, and returns it.
std::string_view take_field(std::string_view& rest) {
  const void* tab = std::memchr(rest.data(), '\t', rest.size());
  if (tab == nullptr) {
    const std::string_view last = rest;
    rest = {};
    return last;
  }
  const auto size = static_cast<std::size_t>(static_cast<const char*>(tab) - rest.data());
  const std::string_view field = rest.substr(0, size);
  rest.remove_prefix(size + 1);
  return field;
}

[[noreturn]] void throw_wrong_columns(std::int64_t got) {
  throw UserError(cat(
      "has ", got, got == 1 ? " column" : " columns", ", but ", columns, " belong here: a label, ",
      criteo_numbers, " numbers and ", criteo_categories, " categories, with tabs between them",
      got == columns - 1 ? "; is the label missing? Only flotilla predict reads lines without labels" : ""));
}

class CriteoFormat final : public LineFormat {
 public:
  explicit CriteoFormat(const CriteoOptions& options) : options_(options) {}

  std::string_view name() const override { return "Criteo"; }
  std::int64_t dense() const override { return criteo_numbers; }
  std::int64_t slots() const override { return criteo_categories; }
  bool weighted() const override { return false; }
  bool labelled() const override { return options_.labelled; }
  bool is_sample(std::string_view line) const override { return !line.empty(); }

  int label(std::string_view line) const override {
    if (!options_.labelled) return 0;
    const std::string_view whole = line;
    const std::string_view field = take_field(line);
    if (field == "0" || field == "1") return field == "1" ? 1 : 0;
    const auto tabs = std::ranges::count(whole, '\t');
    if (tabs + 1 != columns) throw_wrong_columns(tabs + 1);
    throw UserError(cat("the label (column 1) must be 0 or 1, got ", shown(field)));
  }

  std::int32_t parse(std::string_view line, std::span<float> dense, BagBuffer& bags) const override {
    require(std::ssize(dense) == criteo_numbers, "a line has ", criteo_numbers, " numbers, room is for ",
            dense.size());
    const auto tabs = std::count(line.begin(), line.end(), '\t');
    const bool label_is_missing = !options_.labelled && tabs + 2 == columns;
    if (tabs + 1 != columns && !label_is_missing) throw_wrong_columns(tabs + 1);
    const int label_value = label(line);
    if (!label_is_missing) take_field(line);
    for (std::size_t k = 0; k < dense.size(); ++k) dense[k] = number(take_field(line), k);
    for (std::int64_t slot = 0; slot < criteo_categories; ++slot) {
      bags.add(category_id(slot, take_field(line), options_.hash_buckets));
      bags.end_bag();
    }
    return label_value;
  }

 private:
  float number(std::string_view field, std::size_t k) const {
    if (field.empty()) return 0.0F;
    float x = 0.0F;
    if (!read_number(field, x)) {
      throw UserError(cat("column ", k + 2, " (I", k + 1, ") must be a number or empty, got ", shown(field)));
    }
    if (options_.transform == DenseTransform::log) return std::log1p(std::max(x, 0.0F));
    return (std::clamp(x, criteo_least[k], criteo_cap[k]) - criteo_least[k]) /
           (criteo_cap[k] - criteo_least[k]);
  }

  CriteoOptions options_;
};

}  // namespace

std::unique_ptr<LineFormat> make_criteo_format(const CriteoOptions& options) {
  return std::make_unique<CriteoFormat>(options);
}

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
