// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/error.hpp"
#include "src/data/clicks/fields.hpp"
#include "src/data/clicks/line_format.hpp"
#include "src/data/shown.hpp"

namespace flotilla {

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

}  // namespace flotilla
