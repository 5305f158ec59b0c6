// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

/// Keeps a second run out of a run's folder, through a lock on its file .lock. The system gives the lock back
/// when the process ends, however it ends. Where there are no locks, a warning says so.
class RunLock {
 public:
  /// Waits up to `patience_s` for a run that is ending. @throws UserError naming the process that has it.
  explicit RunLock(const std::string& folder, double patience_s = 0.0);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  /// That nothing keeps a second run out, and why; empty: the lock is there.
  const std::string& warning() const { return warning_; }

 private:
  int descriptor_ = -1;
  std::string warning_;
};

}  // namespace flotilla
