// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace flotilla {

/// Stands between the program and the system's pwrite, fsync and rename (watched_calls.cpp defines them):
/// logs the calls on files of one folder, and lets them fail as a full or broken disk would. Not for two
/// threads at once.
class WatchedCalls {
 public:
  explicit WatchedCalls(std::string folder);  ///< Watches until the end of its life.
  WatchedCalls(const WatchedCalls&) = delete;
  WatchedCalls& operator=(const WatchedCalls&) = delete;
  ~WatchedCalls();

  /// "write NAME", "sync NAME", "rename NAME NAME"; equal neighbours once. The folder itself is ".".
  std::vector<std::string> log;
  std::ptrdiff_t room = -1;  ///< Bytes until writes fail with ENOSPC; negative: no end
  bool sync_fails = false;   ///< With EIO, of files
  bool rename_fails = false;
  std::ptrdiff_t spoilt_byte = -1;  ///< This one of all written bytes reaches the disk wrong

  bool covers(const std::string& path) const { return path.starts_with(folder_); }
  void add(const std::string& verb, const std::string& path);

 private:
  std::string folder_;
};

}  // namespace flotilla
