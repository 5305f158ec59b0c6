// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/background_reader.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t fetched_piece_bytes = 1 << 20;
constexpr std::size_t most_waiting_parts = 65536;

}  // namespace

BackgroundReader::BackgroundReader(const OpenFiles& files, std::int64_t most) : files_(files), most_(most) {}

BackgroundReader::~BackgroundReader() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void BackgroundReader::fetch(std::size_t file, std::int64_t begin, std::int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    parts_.push_back({file, begin, bytes});
    if (parts_.size() > most_waiting_parts) parts_.pop_front();
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
}

void BackgroundReader::has_read(std::int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const bool waits = ahead_ >= most_;
    // A little more than was read, so that parts that are never read do not count for ever.
    ahead_ = std::max<std::int64_t>(ahead_ - bytes - bytes / 16, 0);
    if (!waits || ahead_ >= most_) return;
  }
  changed_.notify_one();
}

void BackgroundReader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || (!parts_.empty() && ahead_ < most_); });
    if (ends_) return;
    Part& next = parts_.front();
    const Part piece{next.file, next.begin, std::min(next.bytes, fetched_piece_bytes)};
    next.begin += piece.bytes;
    next.bytes -= piece.bytes;
    if (next.bytes == 0) parts_.pop_front();
    ahead_ += piece.bytes;
    lock.unlock();
    try {
      files_.open(piece.file)->read_ahead(piece.begin, piece.bytes);
    } catch (const UserError&) {  // told by reading it
    }
    lock.lock();
  }
}

}  // namespace flotilla
