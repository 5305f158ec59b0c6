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
constexpr std::size_t blocks_of_entry = 64;  // blocks of an index

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

SampleIndex::SampleIndex(std::int64_t file_bytes, std::int64_t block_bytes)
    : block_bytes_(block_bytes), file_bytes_(file_bytes) {
  require(0 < block_bytes && block_bytes <= 65536, "an index of blocks of ", block_bytes, " bytes");
}

void SampleIndex::add(std::vector<Block> blocks) {
  std::size_t k = blocks_.size();
  if (k == 0) {
    blocks_ = std::move(blocks);
    blocks_.reserve(static_cast<std::size_t>(this->blocks()));
  } else {
    blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  }
  for (; k < blocks_.size(); ++k) {
    if (k % blocks_of_entry == 0) before_.push_back(size_);
    size_ += blocks_[k].samples;
  }
}

SampleIndex::Entry SampleIndex::before(std::int64_t sample) const {
  require(0 <= sample && sample < size_, "no sample ", sample, " in a file of ", size_);
  const auto behind = std::upper_bound(before_.begin(), before_.end(), sample);
  std::size_t k = blocks_of_entry * static_cast<std::size_t>(behind - before_.begin() - 1);
  Entry entry{.sample = *(behind - 1)};
  while (entry.sample + blocks_[k].samples <= sample) entry.sample += blocks_[k++].samples;
  const auto begin_of = [&](std::size_t block) {
    return static_cast<std::int64_t>(block) * block_bytes_ + blocks_[block].begin;
  };
  entry.begin = begin_of(k);
  do {
    ++k;
  } while (k < blocks_.size() && blocks_[k].samples == 0);
  entry.bytes = (k < blocks_.size() ? begin_of(k) : file_bytes_) - entry.begin;
  return entry;
}

std::pair<std::int64_t, bool> SampleIndex::known_before(std::int64_t byte) const {
  const auto k = std::min(static_cast<std::size_t>(byte / block_bytes_), blocks_.size() - 1);
  std::int64_t samples = before_[k / blocks_of_entry];
  for (std::size_t block = k / blocks_of_entry * blocks_of_entry; block < k; ++block)
    samples += blocks_[block].samples;
  const bool begins = blocks_[k].samples > 0 && blocks_[k].begin <= byte % block_bytes_;
  return {std::max<std::int64_t>(begins ? samples : samples - 1, 0), begins && blocks_[k].samples > 1};
}

}  // namespace flotilla
