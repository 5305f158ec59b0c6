// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/array_dataset.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "src/data/data_reader.hpp"

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
  else if (!targets.type.is_integer() && targets.words.empty())
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
    if (!inputs.words.empty())
      mistakes.add(
          cat(inputs.name, ": holds texts, and inputs are numbers: name another array in data.inputs"));
    if (part.targets == nullptr) continue;
    const ArrayForm& targets = part.targets->form();
    check_counts(part, mistakes);
    if (options.targets > 0 && !targets.words.empty()) {
      mistakes.add(cat(targets.name, ": holds texts, which are labels of model.loss = \"softmax\""));
    } else if (options.targets == 0) {
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

void read_labels(const Array& targets, const ArrayDatasetOptions& options,
                 std::vector<std::int32_t>& labels) {
  const ArrayForm& form = targets.form();
  std::vector<std::int32_t> of_words;
  for (const Word& word : form.words) {
    const auto found = std::ranges::find(options.words, word.text);
    if (found == options.words.end())
      throw UserError(cat(word.place, ": the label ", shown(word.text), " is none of the ",
                          options.words.size(), " classes of the training data (",
                          shown(options.words.front()), " to ", shown(options.words.back()),
                          "): correct it or leave the sample out"));
    of_words.push_back(static_cast<std::int32_t>(found - options.words.begin()));
  }
  std::vector<std::int64_t> values;
  std::vector<double> numbers_of_words;
  for_each_piece(targets, 0, form.rows(), [&](std::int64_t first, std::span<const std::byte> numbers) {
    const std::size_t count = numbers.size() / static_cast<std::size_t>(form.type.bytes());
    if (!of_words.empty()) {
      numbers_of_words.resize(count);
      to_doubles(form.type, numbers, numbers_of_words);
      for (const double word : numbers_of_words) labels.push_back(of_words[static_cast<std::size_t>(word)]);
      return;
    }
    values.resize(count);
    to_integers(form.type, numbers, values);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[k] < 0 || values[k] >= options.classes)
        throw UserError(cat(form.name, ": label ", values[k], " of sample ",
                            first + static_cast<std::int64_t>(k), " is not in 0 … ", options.classes - 1,
                            " (model.classes = ", options.classes,
                            "); labels count from 0: correct the file or model.classes"));
      labels.push_back(static_cast<std::int32_t>(values[k]));
    }
  });
}

std::vector<std::string> class_words(const std::set<std::string>& texts, std::int64_t classes,
                                     const std::string& what) {
  std::vector<std::string> words(texts.begin(), texts.end());
  const auto number = [](const std::string& text) {
    std::int64_t value = -1;
    const bool whole =
        std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size();
    return whole && std::to_string(value) == text ? value : -1;
  };
  const bool integers =
      std::ranges::all_of(words, [&](const std::string& text) { return number(text) >= 0; });
  if (integers) std::ranges::sort(words, {}, number);
  const auto most = static_cast<std::size_t>(classes);
  if (integers && number(words.back()) < classes && words.size() < most) {
    words.clear();
    while (words.size() < most) words.push_back(std::to_string(words.size()));
  }
  if (words.size() == 1)
    throw UserError(cat(what, ": all labels are ", shown(words.front()), ": there is nothing to learn"));
  if (classes > 0 && words.size() != most)
    throw UserError(cat(what, ": has ", words.size(), " different labels, ", shown(words.front()), " to ",
                        shown(words.back()), ", but model.classes = ", classes,
                        ": correct one of them, or leave model.classes out"));
  return words;
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

namespace {

constexpr std::int64_t max_channels_of_bytes = 4;
constexpr std::int64_t max_checked_bytes = std::int64_t{1} << 30;

/// Numbers of (outer, inner) as (inner, outer).
template <std::size_t size>
void transpose_numbers(const std::byte* from, std::size_t outer, std::size_t inner, std::byte* to) {
  for (std::size_t k = 0; k < inner; ++k)
    for (std::size_t i = 0; i < outer; ++i)
      std::memcpy(to + (k * outer + i) * size, from + (i * inner + k) * size, size);
}

void transpose(std::size_t number_bytes, const std::byte* from, std::size_t outer, std::size_t inner,
               std::byte* to) {
  switch (number_bytes) {
    case 1: return transpose_numbers<1>(from, outer, inner, to);
    case 2: return transpose_numbers<2>(from, outer, inner, to);
    case 4: return transpose_numbers<4>(from, outer, inner, to);
    default: return transpose_numbers<8>(from, outer, inner, to);
  }
}

class ArrayDataset final : public Dataset {
 public:
  ArrayDataset(std::vector<ArrayPair> parts, const ArrayDatasetOptions& options)
      : parts_(std::move(parts)),
        form_(parts_.front().inputs->form()),
        shape_(sample_shape_of(form_, options.channels_last)),
        channels_last_(options.channels_last && shape_[0] > 1),
        inputs_(input_scaling(form_.type, shape_, options)),
        width_(parts_.front().targets == nullptr ? 0 : options.targets),
        binary_(options.binary) {
    for (const ArrayPair& part : parts_) begins_.push_back(begins_.back() + part.inputs->form().rows());
    if (width_ > 0) targets_.emplace(parts_.front().targets->form().type, width_, options.target_values);
    const bool images = form_.type.is_byte() && shape_.rank() == 3 && shape_[0] <= max_channels_of_bytes;
    set_facts({.size = begins_.back(),
               .shape = shape_,
               .description = cat(begins_.back(), " samples ", shape_.text(), " of ", form_.type.text(),
                                  " in ", options.description, " (", form_.storage, ")", options.left_out),
               .number_type = form_.type.text(),
               .scaling = images ? std::optional(inputs_.bytes(shape_[0])) : std::nullopt,
               .target_width = width_,
               .warnings = warnings_of(parts_)});
  }

  /// Keeps the labels of all parts, if the samples have labels.
  /// @param words texts of the classes; empty: labels are numbers
  void keep_labels(std::vector<std::int32_t> labels, std::vector<std::string> words) {
    labels_ = std::move(labels);
    DatasetFacts known = facts();
    known.classes =
        words.empty() ? (labels_.empty() ? 0 : *std::ranges::max_element(labels_) + 1) : std::ssize(words);
    known.class_words = std::move(words);
    set_facts(std::move(known));
  }

  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    check_room(i, to.size());
    const Array& array = *part_of(i).inputs;
    if (inputs_.changes_nothing() && !form_.type.big_endian && !channels_last_) {
      array.read(row_of(i), 1, std::as_writable_bytes(to));
    } else {
      const std::span<std::byte> numbers = read_row(array, row_of(i));
      to_native_order(form_.type, numbers);
      inputs_.convert(channels_last_ ? channels_first(numbers) : numbers, to);
    }
    if (!form_.type.is_integer()) check_finite(i, to);
    return label(i);
  }

  std::int32_t read_bytes(std::int64_t i, std::uint64_t /*variation*/,
                          std::span<std::uint8_t> to) const override {
    check_room(i, to.size());
    const auto bytes = std::as_writable_bytes(to);
    if (channels_last_ || shape_[0] == 1) {
      part_of(i).inputs->read(row_of(i), 1, bytes);
    } else {
      const auto channels = static_cast<std::size_t>(shape_[0]);
      const std::span<const std::byte> planes = read_row(*part_of(i).inputs, row_of(i));
      transpose(1, planes.data(), channels, planes.size() / channels, bytes.data());
    }
    return label(i);
  }

  void read_targets(std::int64_t i, std::span<float> to) const override {
    require(std::ssize(to) == width_ && targets_, "targets of sample ", i, " cannot be read into ", to.size(),
            " values");
    const Array& array = *part_of(i).targets;
    const std::span<std::byte> numbers = read_row(array, row_of(i));
    to_native_order(array.form().type, numbers);
    targets_->convert(numbers, to);
    if (const std::int64_t bad = find_bad_target(to, binary_); bad >= 0)
      throw UserError(bad_target_text(array.form(), row_of(i), to[static_cast<std::size_t>(bad)]));
  }

  void read_stored(std::int64_t i, std::span<double> inputs, std::span<double> targets) const override {
    const std::span<std::byte> numbers = read_row(*part_of(i).inputs, row_of(i));
    to_native_order(form_.type, numbers);
    to_doubles(form_.type, channels_last_ ? channels_first(numbers) : numbers, inputs);
    for (double& value : inputs) value /= form_.type.is_byte() ? 255.0 : 1.0;
    if (width_ == 0) return;
    const Array& array = *part_of(i).targets;
    const std::span<std::byte> stored = read_row(array, row_of(i));
    to_native_order(array.form().type, stored);
    to_doubles(array.form().type, stored, targets);
  }

  void check_targets(std::int64_t first, std::int64_t count, MistakeList& mistakes) const override {
    if (width_ == 0) return;
    const std::int64_t row_bytes = parts_.front().targets->form().row_bytes();
    count = std::min(count, std::max<std::int64_t>(1, max_checked_bytes / row_bytes));
    for_each_part(first, count, [&](const ArrayPair& part, std::int64_t row, std::int64_t rows) {
      mistakes.attempt([&] { flotilla::check_targets(*part.targets, row, rows, binary_, mistakes); });
    });
  }

  void will_read(std::int64_t first, std::int64_t count) const override {
    for_each_part(first, count, [&](const ArrayPair& part, std::int64_t row, std::int64_t rows) {
      part.inputs->will_read(row, rows);
      if (width_ > 0) part.targets->will_read(row, rows);
    });
  }

  std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const override {
    const std::int64_t files = std::ssize(parts_);
    std::vector<std::int64_t> shares;
    for (std::int64_t worker = 0; worker <= workers; ++worker) {
      const auto file =
          static_cast<std::size_t>(worker * (files / workers) + std::min(worker, files % workers));
      shares.push_back(how == ShardBy::files ? begins_[file] : sample_at_share(worker, workers));
    }
    return shares;
  }

  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    const std::array<std::int64_t, 5> form{static_cast<std::int64_t>(form_.type.kind), shape_[0],
                                           shape_.rank() > 1 ? shape_[1] : 0,
                                           shape_.rank() > 2 ? shape_[2] : 0, width_};
    sum.add(std::as_bytes(std::span(form)));
    sum.add(std::as_bytes(std::span(labels_)));
    for (const std::int64_t i : samples) {
      for (const Array* array : {part_of(i).inputs.get(), width_ > 0 ? part_of(i).targets.get() : nullptr}) {
        if (array == nullptr) continue;
        const std::span<std::byte> numbers = read_row(*array, row_of(i));
        to_native_order(array->form().type, numbers);
        sum.add(numbers);
      }
    }
  }

 private:
  static SampleScaling input_scaling(NumberType type, const Shape& shape,
                                     const ArrayDatasetOptions& options) {
    const bool given = !options.inputs.mean.empty() || !options.inputs.std.empty();
    if (!type.is_byte()) return {type, shape[0], options.inputs};
    return SampleScaling::of_pixels(shape[0], given ? options.inputs : options.pixels);
  }

  static std::vector<std::string> warnings_of(const std::vector<ArrayPair>& parts) {
    std::vector<std::string> warnings;
    for (const ArrayPair& part : parts)
      if (const std::string& warning = part.inputs->form().warning; !warning.empty())
        warnings.push_back(warning);
    return warnings;
  }

  void check_room(std::int64_t i, std::size_t room) const {
    require(0 <= i && i < size() && static_cast<std::int64_t>(room) == shape_.size(), "sample ", i, " of ",
            size(), " cannot be read into ", room, " values");
  }

  /// Calls `use` with each part that holds some of the samples, the first of them there and their number.
  template <class Use>
  void for_each_part(std::int64_t first, std::int64_t count, const Use& use) const {
    while (count > 0) {
      const std::size_t part = number_of_part(first);
      const std::int64_t rows = std::min(count, begins_[part + 1] - first);
      use(parts_[part], first - begins_[part], rows);
      first += rows;
      count -= rows;
    }
  }

  std::size_t number_of_part(std::int64_t i) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(begins_, i) - begins_.begin()) - 1;
  }
  const ArrayPair& part_of(std::int64_t i) const { return parts_[number_of_part(i)]; }
  std::int64_t row_of(std::int64_t i) const { return i - begins_[number_of_part(i)]; }
  std::int32_t label(std::int64_t i) const {
    return labels_.empty() ? 0 : labels_[static_cast<std::size_t>(i)];
  }

  /// A row as it is stored, in a buffer of this thread's; valid until its next call.
  static std::span<std::byte> read_row(const Array& array, std::int64_t row) {
    thread_local std::vector<std::byte> buffer;
    buffer.resize(static_cast<std::size_t>(array.form().row_bytes()));
    array.read(row, 1, buffer);
    return buffer;
  }

  /// (H,W,C) as (C,H,W), in a buffer of this thread's.
  std::span<const std::byte> channels_first(std::span<const std::byte> numbers) const {
    thread_local std::vector<std::byte> planes;
    planes.resize(numbers.size());
    const auto channels = static_cast<std::size_t>(shape_[0]);
    const auto number_bytes = static_cast<std::size_t>(form_.type.bytes());
    transpose(number_bytes, numbers.data(), numbers.size() / number_bytes / channels, channels,
              planes.data());
    return planes;
  }

  void check_finite(std::int64_t i, std::span<const float> values) const {
    const std::int64_t bad = find_not_finite(values);
    if (bad < 0) return;
    throw BadSample(cat(part_of(i).inputs->form().name, ": sample ", row_of(i), " has the value ",
                        values[static_cast<std::size_t>(bad)], " at position ", bad,
                        " of its inputs; leave the sample out or correct the file"));
  }

  /// The first sample of a worker's share: the start of a chunk, so that no other worker reads it.
  std::int64_t sample_at_share(std::int64_t worker, std::int64_t workers) const {
    if (worker == workers) return size();
    const std::int64_t even = size() / workers * worker + size() % workers * worker / workers;
    const std::size_t part = number_of_part(even);
    const std::int64_t rows = parts_[part].inputs->rows_at_once();
    return begins_[part] + (even - begins_[part]) / rows * rows;
  }

  std::vector<ArrayPair> parts_;
  std::vector<std::int64_t> begins_{0};  ///< First sample of each part, and the end of the last
  ArrayForm form_;                       ///< Form of the inputs of the first part
  Shape shape_;
  bool channels_last_;
  SampleScaling inputs_;
  std::int64_t width_;
  bool binary_;
  std::optional<SampleScaling> targets_;
  /// The labels of all samples: a separate read for each would cost as much as the sample.
  std::vector<std::int32_t> labels_;
};

}  // namespace

Shape sample_shape_of(const ArrayForm& inputs, bool channels_last) {
  const std::vector<std::int64_t>& extents = inputs.extents;
  if (channels_last && extents.size() < 3)
    throw UserError(cat(inputs.name, ": data.channels_last is of images (N,H,W,C), and its shape is ",
                        inputs.shape_text(), "; leave it out"));
  switch (extents.size()) {
    case 1: return {1};
    case 2: return {extents[1]};
    case 3: return {1, extents[1], extents[2]};
    case 4:
      if (channels_last) return {extents[3], extents[1], extents[2]};
      return {extents[1], extents[2], extents[3]};
    default:
      throw UserError(
          cat(inputs.name, ": its shape is ", inputs.shape_text(),
              ", and a sample has at most 3 axes behind the first, which counts them; reshape it"));
  }
}

std::unique_ptr<Dataset> make_array_dataset(std::vector<ArrayPair> parts,
                                            const ArrayDatasetOptions& options) {
  require(!parts.empty(), "a data set of no arrays");
  MistakeList mistakes;
  check_forms(parts, options, mistakes);
  mistakes.throw_if_any(options.description);
  ArrayDatasetOptions own = options;
  std::set<std::string> texts;
  for (const ArrayPair& part : parts)
    for (const Word& word : part.targets == nullptr ? std::vector<Word>() : part.targets->form().words)
      texts.insert(word.text);
  if (texts.empty()) own.words.clear();
  if (!texts.empty() && own.words.empty())
    own.words = class_words(texts, options.classes == any_classes ? 0 : options.classes, options.description);
  std::vector<std::int32_t> labels;
  for (const ArrayPair& part : parts)
    if (part.targets != nullptr && options.targets == 0)
      mistakes.attempt([&] { read_labels(*part.targets, own, labels); });
  mistakes.throw_if_any(options.description);
  auto data = std::make_unique<ArrayDataset>(std::move(parts), options);
  data->keep_labels(std::move(labels), std::move(own.words));
  return data;
}

}  // namespace flotilla
