// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/array.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t most_bytes_of_array = std::int64_t{1} << 60;

}  // namespace

std::int64_t ArrayForm::row_values() const {
  return std::accumulate(extents.begin() + 1, extents.end(), std::int64_t{1}, std::multiplies<>());
}

std::string ArrayForm::shape_text() const {
  return extents_text(extents);
}

bool ArrayFile::has(const std::string& name) const {
  return std::ranges::count(names(), name) > 0;
}

std::string extents_text(std::span<const std::int64_t> extents) {
  std::string text = "(";
  for (const std::int64_t extent : extents) text += cat(text.size() > 1 ? "," : "", extent);
  return text + ")";
}

void check_form(const ArrayForm& form) {
  if (form.extents.empty())
    throw UserError(
        cat(form.name, ": is a single number; write an array whose first axis counts the samples"));
  std::int64_t bytes = form.type.bytes();
  for (const std::int64_t extent : form.extents) {
    if (extent <= 0)
      throw UserError(
          cat(form.name, ": is empty: its shape is ", form.shape_text(), "; name one that holds numbers"));
    if (bytes > most_bytes_of_array / extent)
      throw UserError(cat(form.name, ": its shape ", form.shape_text(),
                          " is too large to be true; copy or write the file again"));
    bytes *= extent;
  }
}

}  // namespace flotilla
