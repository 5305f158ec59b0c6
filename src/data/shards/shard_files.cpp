// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/shard_files.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"

namespace flotilla {

std::shared_ptr<const File> OpenFiles::open(std::size_t number) const {
  const Entry& entry = files_[number];
  std::shared_ptr<const File> file;
  {
    const std::lock_guard lock(mutex_);
    if (!entry.file) {
      entry.file = std::make_shared<const File>(open_data_file(entry.path));
      if (entry.stamp.changed_ns == 0) entry.stamp.changed_ns = entry.file->stamp().changed_ns;
      opened_.push_back(number);
      if (opened_.size() > most_) {
        files_[opened_.front()].file.reset();
        opened_.pop_front();
      }
    }
    file = entry.file;
  }
  if (file->stamp() != entry.stamp)
    throw UserError(cat(config::printable(entry.path),
                        ": has changed since it was opened; start again when it is complete"));
  return file;
}

namespace {

constexpr std::int64_t fetched_piece_bytes = 1 << 20;
constexpr std::size_t max_waiting_parts = 65536;

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
    if (parts_.size() > max_waiting_parts) parts_.pop_front();
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
    } catch (const UserError&) {  // reported when it is read
    }
    lock.lock();
  }
}

}  // namespace flotilla
