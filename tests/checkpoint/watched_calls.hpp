// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace flotilla {

/// Stands between the program and the system's open, pwrite, pread, fsync, rename and unlink
/// (watched_calls.cpp defines them): logs the calls on files of one folder, and lets them fail as a full or
/// broken disk would. One at a time.
class WatchedCalls {
 public:
  explicit WatchedCalls(std::string folder);  ///< Watches until the end of its life.
  WatchedCalls(const WatchedCalls&) = delete;
  WatchedCalls& operator=(const WatchedCalls&) = delete;
  ~WatchedCalls();

  /// "write NAME", "sync NAME", "rename NAME NAME"; equal neighbours once. The folder itself is ".".
  std::vector<std::string> log;
  std::ptrdiff_t room = -1;  ///< Bytes until writes fail with ENOSPC; negative: no end
  bool sync_fails = false;   ///< Syncs of files fail with EIO
  bool rename_fails = false;
  std::ptrdiff_t spoilt_byte = -1;  ///< Index of the written byte that reaches the disk wrong; −1: none

  /// Result of `fault` for a call that reports success although a write stores other bytes, or a rename or
  /// removal does nothing.
  static constexpr int lies = -1;
  /// Asked before each call, by any thread, in place of the members above: what is to become of the call
  /// "open" (to write), "write", "sync", "read", "rename" (to that path) or "remove". @returns an errno to
  /// fail with; `lies`; 0: it is made, but for syncs, which the disk is spared
  std::function<int(const std::string& call, const std::string& path)> fault;

  bool covers(const std::string& path) const { return path.starts_with(folder_); }
  void add(const std::string& verb, const std::string& path);
  /// What becomes of a call.
  int fate(const std::string& call, const std::string& path);

 private:
  std::string folder_;
  std::mutex mutex_;
};

}  // namespace flotilla
