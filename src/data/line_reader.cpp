// SPDX-License-Identifier: Apache-2.0
#include "src/data/line_reader.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t min_step = 4096;
constexpr std::size_t max_step = 256 * 1024;
constexpr std::size_t longest_line = std::size_t{16} << 20;

}  // namespace

LineReader::LineReader() : buffer_(2 * max_step) {}

void LineReader::seek(const File& file, std::int64_t begin, std::int64_t bytes) {
  const bool inside =
      &file == file_ && window_ <= begin && begin - window_ < static_cast<std::int64_t>(filled_);
  if (inside) {
    at_ = static_cast<std::size_t>(begin - window_);
    return;
  }
  file_ = &file;
  window_ = begin;
  filled_ = 0;
  at_ = 0;
  step_ = std::clamp(static_cast<std::size_t>(bytes), min_step, max_step);
  ended_ = false;
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = at_;
  for (;;) {
    const void* found = std::memchr(buffer_.data() + searched, '\n', filled_ - searched);
    if (found == nullptr) {
      searched = filled_ - at_;  // what is left moves to the buffer's start
      if (read_more()) continue;
      if (at_ == filled_) return false;
    }
    const std::size_t end = found == nullptr
                                ? filled_
                                : static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
    line_begin_ = window_ + static_cast<std::int64_t>(at_);
    line = {buffer_.data() + at_, end - at_};
    if (line.ends_with('\r')) line.remove_suffix(1);
    at_ = found != nullptr ? end + 1 : end;
    return true;
  }
}

bool LineReader::read_more() {
  const std::size_t kept = filled_ - at_;
  if (kept > longest_line) {
    throw UserError(cat(file_->name(), ": the line at byte ", window_ + static_cast<std::int64_t>(at_),
                        " is longer than 16 MiB; is this a text file?"));
  }
  std::memmove(buffer_.data(), buffer_.data() + at_, kept);
  window_ += static_cast<std::int64_t>(at_);
  at_ = 0;
  filled_ = kept;
  if (ended_) return false;
  if (kept + step_ > buffer_.size()) buffer_.resize(kept + step_ + max_step);
  const std::span<char> room = std::span(buffer_).subspan(kept, step_);
  const std::size_t got =
      file_->read_some(window_ + static_cast<std::int64_t>(kept), std::as_writable_bytes(room));
  filled_ += got;
  ended_ = got < step_;
  step_ = std::min(2 * step_, max_step);
  return got > 0;
}

std::int64_t line_number(const File& file, std::int64_t begin) {
  std::vector<std::byte> block(max_step);
  std::int64_t number = 1;
  for (std::int64_t at = 0; at < begin;) {
    const auto room = static_cast<std::size_t>(std::min<std::int64_t>(begin - at, max_step));
    const std::size_t got = file.read_some(at, std::span(block).first(room));
    if (got == 0) break;
    number += std::count(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(got), std::byte{'\n'});
    at += static_cast<std::int64_t>(got);
  }
  return number;
}

LineIndex::LineIndex(std::size_t max_entries) : max_entries_(std::max<std::size_t>(max_entries, 1)) {}

void LineIndex::add(std::int64_t begin) {
  if (size_ % stride_ == 0 && begins_.size() == max_entries_) {
    // Drops every second entry.
    const std::size_t kept = (begins_.size() + 1) / 2;
    for (std::size_t k = 0; k < kept; ++k) begins_[k] = begins_[2 * k];
    begins_.resize(kept);
    stride_ *= 2;
  }
  if (size_ % stride_ == 0) begins_.push_back(begin);
  ++size_;
}

std::int64_t LineIndex::sample_at(std::int64_t byte) const {
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), byte);
  return std::max<std::int64_t>(behind - begins_.begin() - 1, 0) * stride_;
}

LineIndex::Entry LineIndex::before(std::int64_t sample) const {
  require(0 <= sample && sample < size_, "no sample ", sample, " in a file of ", size_);
  const auto k = static_cast<std::size_t>(sample / stride_);
  const std::int64_t next = k + 1 < begins_.size() ? begins_[k + 1] : end_;
  return {.sample = sample / stride_ * stride_, .begin = begins_[k], .bytes = next - begins_[k]};
}

}  // namespace flotilla
