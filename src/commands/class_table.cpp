// SPDX-License-Identifier: Apache-2.0
#include "src/commands/class_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace flotilla {

namespace {

std::string share(std::int64_t part, std::int64_t all) {
  return all > 0 ? fmt::format("{:.5f}", static_cast<double>(part) / static_cast<double>(all)) : "-";
}

std::size_t width_of(std::int64_t number) {
  return std::to_string(number).size();
}

}  // namespace

ClassTable::ClassTable(std::int64_t classes, std::vector<std::string> names, bool matrix)
    : classes_(static_cast<std::size_t>(classes)),
      names_(std::move(names)),
      samples_(classes_),
      predicted_(classes_),
      correct_(classes_),
      matrix_(matrix && classes <= most_for_matrix ? classes_ * classes_ : 0) {}

void ClassTable::add(std::span<const float> rows, std::span<const std::int32_t> labels) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> outputs = rows.subspan(row * classes_, classes_);
    const auto label = static_cast<std::size_t>(labels[row]);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(outputs) - outputs.begin());
    ++samples_[label];
    ++predicted_[best];
    correct_[label] += best == label;
    if (has_matrix()) ++matrix_[label * classes_ + best];
  }
}

void ClassTable::merge(const mpi::Communicator& world) {
  for (std::vector<std::int64_t>* counts : {&samples_, &predicted_, &correct_, &matrix_})
    if (!counts->empty()) world.all_reduce(std::span<std::int64_t>(*counts));
}

std::string ClassTable::name(std::size_t label) const {
  return names_.empty() ? std::to_string(label) : names_[label];
}

std::vector<std::string> ClassTable::lines() const {
  std::vector<std::string> lines = {
      fmt::format("{:>8}{:>10}{:>10}{:>11}", "class", "samples", "top-1", "precision")};
  for (std::size_t label = 0; label < classes_; ++label)
    lines.push_back(fmt::format(
        "{:>8}{:>10}{:>10}{:>11}{}", label, samples_[label], share(correct_[label], samples_[label]),
        share(correct_[label], predicted_[label]), names_.empty() ? "" : "  " + names_[label]));
  return lines;
}

std::vector<std::string> ClassTable::matrix_lines() const {
  std::size_t width = width_of(static_cast<std::int64_t>(classes_));
  for (const std::int64_t count : matrix_) width = std::max(width, width_of(count));
  std::string columns = fmt::format("{:>8}", "class");
  for (std::size_t taken = 0; taken < classes_; ++taken) columns += fmt::format("  {:>{}}", taken, width);
  std::vector<std::string> lines = {"confusion   rows: true classes, columns: predicted ones", columns};
  for (std::size_t label = 0; label < classes_; ++label) {
    std::string line = fmt::format("{:>8}", label);
    for (std::size_t taken = 0; taken < classes_; ++taken)
      line += fmt::format("  {:>{}}", count(label, taken), width);
    lines.push_back(names_.empty() ? line : line + "  " + names_[label]);
  }
  return lines;
}

}  // namespace flotilla
