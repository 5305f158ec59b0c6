// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/array.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t max_bytes_of_array = std::int64_t{1} << 60;

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
    if (bytes > max_bytes_of_array / extent)
      throw UserError(cat(form.name, ": its shape ", form.shape_text(),
                          " is too large to be true; copy or write the file again"));
    bytes *= extent;
  }
}

namespace {

constexpr std::uint32_t reads_between_checks = 1024;

}  // namespace

UnchangedFile::UnchangedFile(File file) : file_(std::move(file)), stamp_(file_.stamp()) {
  stamp_.bytes = file_.size();  // as it was opened
}

void UnchangedFile::check() const {
  if (file_.stamp() == stamp_) return;
  throw UserError(cat("'", name(), "' has been changed since it was opened, when it had ", size(),
                      " bytes; do not change it while it is read"));
}

void UnchangedFile::read(std::int64_t begin, std::span<std::byte> to) const {
  file_.read(begin, to);
  if (reads_.fetch_add(1, std::memory_order_relaxed) % reads_between_checks == 0) check();
}

void UnchangedFile::will_read(std::int64_t begin, std::int64_t bytes) const {
  file_.read_ahead(begin, bytes);
}

namespace {

class PlainArray final : public Array {
 public:
  PlainArray(ArrayForm form, std::shared_ptr<const UnchangedFile> file, const PlainPlace& place)
      : Array(std::move(form)),
        file_(std::move(file)),
        begin_(place.begin),
        stride_(place.stride == 0 ? this->form().row_bytes() : place.stride) {
    const std::int64_t end = begin_ + (this->form().rows() - 1) * stride_ + this->form().row_bytes();
    if (end > file_->size())
      throw UserError(cat(this->form().name, ": is truncated: its ", this->form().rows(),
                          " rows end at byte ", end, ", but the file has ", file_->size(),
                          " bytes; copy or write it again"));
  }

  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    if (stride_ == form().row_bytes()) return file_->read(begin_ + first * stride_, to);
    const auto bytes = static_cast<std::size_t>(form().row_bytes());
    for (std::int64_t row = first; row < first + count; ++row) {
      file_->read(begin_ + row * stride_, to.first(bytes));
      to = to.subspan(bytes);
    }
  }
  void will_read(std::int64_t first, std::int64_t count) const override {
    file_->will_read(begin_ + first * stride_, count * stride_);
  }

 private:
  std::shared_ptr<const UnchangedFile> file_;
  std::int64_t begin_;
  std::int64_t stride_;
};

}  // namespace

std::unique_ptr<Array> make_plain_array(ArrayForm form, std::shared_ptr<const UnchangedFile> file,
                                        const PlainPlace& place) {
  return std::make_unique<PlainArray>(std::move(form), std::move(file), place);
}

namespace {

class WordArray final : public Array {
 public:
  WordArray(ArrayForm form, std::vector<std::int32_t> numbers)
      : Array(std::move(form)), numbers_(std::move(numbers)) {}
  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    const auto rows =
        std::span(numbers_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    std::ranges::copy(std::as_bytes(rows), to.begin());
  }
  void will_read(std::int64_t /*first*/, std::int64_t /*count*/) const override {}

 private:
  std::vector<std::int32_t> numbers_;
};

}  // namespace

std::unique_ptr<Array> make_word_array(ArrayForm form, const std::vector<std::string>& texts) {
  std::map<std::string, std::int32_t> known;
  std::vector<std::int32_t> numbers;
  for (const std::string& text : texts) {
    const auto [at, is_new] = known.try_emplace(text, static_cast<std::int32_t>(known.size()));
    if (is_new) form.words.push_back({text, cat(form.name, ", sample ", numbers.size())});
    if (is_new && !config::is_utf8(text))
      throw UserError(cat(form.words.back().place, ": its text is not UTF-8; write it as UTF-8"));
    numbers.push_back(at->second);
  }
  form.extents = {std::ssize(texts)};
  form.type = {.kind = NumberType::Kind::i32};
  form.storage = "texts";
  return std::make_unique<WordArray>(std::move(form), std::move(numbers));
}

namespace {

constexpr std::int64_t skipped_at_once = std::int64_t{1} << 18;

class StreamedArray final : public Array {
 public:
  StreamedArray(ArrayForm form, std::int64_t begin, std::function<ByteReader()> open)
      : Array(std::move(form)), begin_(begin), open_(std::move(open)) {}

  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    const std::lock_guard lock(mutex_);
    const std::int64_t wanted = begin_ + first * form().row_bytes();
    if (!reader_ || wanted < at_) {
      reader_ = open_();
      at_ = 0;
    }
    std::vector<std::byte> skipped(static_cast<std::size_t>(std::min(wanted - at_, skipped_at_once)));
    while (at_ < wanted)
      take(std::span(skipped).first(static_cast<std::size_t>(std::min(wanted - at_, skipped_at_once))));
    take(to);
    std::byte more{};
    if (first + count == form().rows() && reader_({&more, 1}) > 0)  // also compares checksums
      throw UserError(cat(form().name, ": is damaged: data go on behind its last row; copy the file again"));
  }
  void will_read(std::int64_t /*first*/, std::int64_t /*count*/) const override {}

 private:
  void take(std::span<std::byte> to) const {
    if (reader_(to) < to.size())
      throw UserError(cat(form().name,
                          ": is truncated or damaged: its data end before its last row; copy the "
                          "file again"));
    at_ += std::ssize(to);
  }

  std::int64_t begin_;
  std::function<ByteReader()> open_;
  mutable std::mutex mutex_;
  mutable ByteReader reader_;
  mutable std::int64_t at_ = 0;  ///< Bytes that the reader has given
};

}  // namespace

std::unique_ptr<Array> make_streamed_array(ArrayForm form, std::int64_t begin,
                                           std::function<ByteReader()> open) {
  return std::make_unique<StreamedArray>(std::move(form), begin, std::move(open));
}

}  // namespace flotilla
