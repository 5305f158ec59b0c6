// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace flotilla {

/// Prevents a second run in a run's folder, by a lock on its file .lock. The system releases the lock when
/// the process ends, however it ends. Where the file system has no locks, there is a warning instead.
class RunLock {
 public:
  /// The processes of a killed run may exist a little longer than its launcher.
  static constexpr double patience_with_ending_s = 5.0;

  /// Waits up to `patience_s` for a run that is ending. @throws UserError naming the process that holds the
  /// lock.
  explicit RunLock(const std::string& folder, double patience_s = 0.0);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  /// A warning that a second run is not prevented, and why; empty: the lock is held.
  const std::string& warning() const { return warning_; }

 private:
  int descriptor_ = -1;
  std::string warning_;
};

/// The mistake of a run whose folder another one holds. @param holder "process 123 on node7"; empty: unknown
std::string in_use_by_another(const std::string& folder, const std::string& holder);

/// The process that holds the lock of a run's folder now, "process 123 on node7"; "" : none does. Empty where
/// that cannot be determined. Takes a shared lock for some microseconds.
std::optional<std::string> lock_holder(const std::string& folder);

}  // namespace flotilla
