// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/array_checks.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;

/// Calls `use` with the first row of each piece of the rows begin … end − 1 and their numbers in this
/// machine's order.
void for_each_piece(const Array& array, std::int64_t begin, std::int64_t end,
                    const std::function<void(std::int64_t first, std::span<const std::byte>)>& use) {
  const std::int64_t each = std::max<std::int64_t>(1, piece_bytes / array.form().row_bytes());
  std::vector<std::byte> piece;
  for (std::int64_t first = begin; first < end; first += each) {
    const std::int64_t count = std::min(each, end - first);
    piece.resize(static_cast<std::size_t>(count * array.form().row_bytes()));
    array.read(first, count, piece);
    to_native_order(array.form().type, piece);
    use(first, piece);
  }
}

void check_counts(const ArrayPair& part, MistakeList& mistakes) {
  const ArrayForm& inputs = part.inputs->form();
  const ArrayForm& targets = part.targets->form();
  if (inputs.rows() != targets.rows())
    mistakes.add(cat(inputs.name, " has ", inputs.rows(), " rows, but ", targets.name, " has ",
                     targets.rows(), "; give two arrays that belong together"));
}

void check_labels(const ArrayForm& targets, MistakeList& mistakes) {
  if (targets.row_values() != 1)
    mistakes.add(cat(targets.name, ": has the shape ", targets.shape_text(),
                     ", but labels of classes are one number a sample; see data.targets and model.loss"));
  else if (!targets.type.is_integer())
    mistakes.add(cat(targets.name, ": holds ", targets.type.text(),
                     ", but labels of classes are integers; write integers, or set model.loss = \"mse\""));
}

void check_width(const ArrayForm& targets, std::int64_t width, MistakeList& mistakes) {
  if (targets.row_values() == width && targets.extents.size() <= 2) return;
  mistakes.add(cat(targets.name, ": has the shape ", targets.shape_text(), ", but the model predicts ", width,
                   width == 1 ? " number" : " numbers", " a sample; see model.outputs and data.targets"));
}

/// @param groups what may have a mean of its own: channels of an image or features of a sample, or targets
void check_scaling(const ArrayForm& form, std::int64_t groups, const GivenScaling& given,
                   const std::string& keys, MistakeList& mistakes) {
  for (const auto& [key, values] : {std::pair{"_mean", &given.mean}, std::pair{"_std", &given.std}})
    if (values->size() > 1 && std::ssize(*values) != groups)
      mistakes.add(cat(keys, key, " has ", values->size(), " values, and ", form.name, " of shape ",
                       form.shape_text(), " takes ", groups == 1 ? "" : cat(groups, ", or "), "one for all"));
}

}  // namespace

void check_forms(const std::vector<ArrayPair>& parts, const ArrayDatasetOptions& options,
                 MistakeList& mistakes) {
  const ArrayForm& first = parts.front().inputs->form();
  mistakes.attempt([&] {
    const Shape sample = sample_shape_of(first, options.channels_last);
    check_scaling(first, sample[0], options.inputs, "data.input", mistakes);
    if (first.type.is_byte()) check_scaling(first, sample[0], options.pixels, "data.image", mistakes);
  });
  if (options.targets > 0 && parts.front().targets != nullptr)
    check_scaling(parts.front().targets->form(), options.targets, options.target_values, "data.target",
                  mistakes);
  for (const ArrayPair& part : parts) {
    const ArrayForm& inputs = part.inputs->form();
    const bool same_shape = std::equal(inputs.extents.begin() + 1, inputs.extents.end(),
                                       first.extents.begin() + 1, first.extents.end());
    if (!same_shape || !(inputs.type == first.type))
      mistakes.add(cat(inputs.name, ": holds ", inputs.type.text(), " ", inputs.shape_text(), ", but ",
                       first.name, " ", first.type.text(), " ", first.shape_text(),
                       "; files are joined along the first axis only"));
    if (part.targets == nullptr) continue;
    const ArrayForm& targets = part.targets->form();
    check_counts(part, mistakes);
    if (options.targets == 0) {
      check_labels(targets, mistakes);
    } else {
      check_width(targets, options.targets, mistakes);
    }
    if (!(targets.type == parts.front().targets->form().type))
      mistakes.add(cat(targets.name, ": holds ", targets.type.text(), ", but ",
                       parts.front().targets->form().name, " ", parts.front().targets->form().type.text(),
                       "; write one type"));
  }
}

void read_labels(const Array& targets, std::int64_t classes, std::vector<std::int32_t>& labels) {
  const ArrayForm& form = targets.form();
  std::vector<std::int64_t> values;
  for_each_piece(targets, 0, form.rows(), [&](std::int64_t first, std::span<const std::byte> numbers) {
    values.resize(numbers.size() / static_cast<std::size_t>(form.type.bytes()));
    to_integers(form.type, numbers, values);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[k] < 0 || values[k] >= classes)
        throw UserError(cat(form.name, ": label ", values[k], " of sample ",
                            first + static_cast<std::int64_t>(k), " is not in 0 … ", classes - 1,
                            " (model.classes = ", classes,
                            "); labels count from 0: correct the file or model.classes"));
      labels.push_back(static_cast<std::int32_t>(values[k]));
    }
  });
}

std::int64_t find_bad_target(std::span<const float> values, bool binary) {
  if (!binary) return find_not_finite(values);
  const auto bad = std::ranges::find_if_not(values, [](float t) { return t >= 0.0F && t <= 1.0F; });
  return bad == values.end() ? -1 : bad - values.begin();
}

std::string bad_target_text(const ArrayForm& targets, std::int64_t row, float value) {
  return cat(targets.name, ": the target of sample ", row, " is ", value,
             std::isfinite(value)
                 ? ", and model.loss = \"binary\" predicts labels of 0 and 1: correct the array, or predict "
                   "numbers with model.loss = \"mse\""
                 : ", which no model can predict; leave the sample out or correct the file");
}

void check_targets(const Array& targets, std::int64_t first, std::int64_t count, bool binary,
                   MistakeList& mistakes) {
  const ArrayForm& form = targets.form();
  if (form.type.is_integer() && !binary) return;
  const auto width = static_cast<std::size_t>(form.row_values());
  const double none = 0.0;
  const double one = 1.0;
  std::vector<float> values;
  for_each_piece(targets, first, first + count, [&](std::int64_t row, std::span<const std::byte> numbers) {
    values.resize(numbers.size() / static_cast<std::size_t>(form.type.bytes()));
    to_floats(form.type, numbers, {.mean = {&none, 1}, .inverse = {&one, 1}}, values);
    for (std::span<const float> rest = values; !rest.empty();) {
      const std::int64_t bad = find_bad_target(rest, binary);
      if (bad < 0) return;
      const std::size_t at = values.size() - rest.size() + static_cast<std::size_t>(bad);
      mistakes.add(bad_target_text(form, row + static_cast<std::int64_t>(at / width), values[at]));
      rest = std::span<const float>(values).subspan((at / width + 1) * width);
    }
  });
}

}  // namespace flotilla
