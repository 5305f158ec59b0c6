// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla {

/// Files that are opened when they are first read; of many the ones opened last stay open. Safe from several
/// threads at once.
class OpenFiles {
 public:
  /// @param most open at a time, those in use apart
  explicit OpenFiles(std::size_t most) : most_(most) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  /// Adds a file, which must not change from now on. @param stamp of it when its contents were looked up, or
  /// its size and no time where another rank did that, maybe in a copy
  void add(const std::string& path, const FileStamp& stamp) { files_.push_back({path, stamp, nullptr}); }
  const std::string& path(std::size_t number) const { return files_[number].path; }
  /// The file of this number, in the order of adding. @throws UserError if it cannot be opened or has changed
  std::shared_ptr<const File> open(std::size_t number) const;

 private:
  struct Entry {
    std::string path;
    mutable FileStamp stamp;
    mutable std::shared_ptr<const File> file;  ///< Under mutex_; null: closed
  };

  std::size_t most_;
  std::vector<Entry> files_;
  mutable std::mutex mutex_;
  mutable std::deque<std::size_t> opened_;  ///< Under mutex_: files that are open, the oldest first
};

/// Has the system fetch parts of files into its memory before they are read, on a thread of its own: a disk
/// with a full queue keeps the thread that asks. No more is fetched ahead of reading than a bound.
class BackgroundReader {
 public:
  /// @param files must outlive the reader  @param most bytes that were fetched and not read
  BackgroundReader(const OpenFiles& files, std::int64_t most);
  BackgroundReader(const BackgroundReader&) = delete;
  BackgroundReader& operator=(const BackgroundReader&) = delete;
  ~BackgroundReader();

  /// Asks for a part of file number `file`. If thousands are waiting, the oldest are dropped.
  void fetch(std::size_t file, std::int64_t begin, std::int64_t bytes);
  /// To be called after `bytes` bytes were read from any file.
  void has_read(std::int64_t bytes);

 private:
  struct Part {
    std::size_t file = 0;
    std::int64_t begin = 0;
    std::int64_t bytes = 0;
  };
  void run();

  const OpenFiles& files_;
  std::int64_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Part> parts_;  ///< Under mutex_
  std::int64_t ahead_ = 0;  ///< Under mutex_: bytes fetched and not read
  bool ends_ = false;       ///< Under mutex_
  std::thread thread_;      ///< Under mutex_: made for the first part
};

}  // namespace flotilla
