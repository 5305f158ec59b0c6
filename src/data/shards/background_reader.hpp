// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "src/data/shards/open_files.hpp"

namespace flotilla {

/// Has the system fetch parts of files into its memory before they are read, on a thread of its own: a disk
/// with a full queue keeps the thread that asks. No more is fetched ahead of reading than a bound.
class BackgroundReader {
 public:
  /// @param files must outlive the reader  @param most bytes that were fetched and not read
  BackgroundReader(const OpenFiles& files, std::int64_t most);
  BackgroundReader(const BackgroundReader&) = delete;
  BackgroundReader& operator=(const BackgroundReader&) = delete;
  ~BackgroundReader();

  /// To be fetched: a part of the file of this number. Of thousands that wait the oldest are forgotten.
  void fetch(std::size_t file, std::int64_t begin, std::int64_t bytes);
  /// So many bytes have been read, of whatever file.
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
  std::int64_t ahead_ = 0;  ///< Under mutex_: fetched and not read
  bool ends_ = false;       ///< Under mutex_
  std::thread thread_;      ///< Under mutex_: made for the first part
};

}  // namespace flotilla
