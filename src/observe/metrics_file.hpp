// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

/// metrics.jsonl: one write per line, so that a run that is killed leaves whole lines.
class MetricsFile {
 public:
  /// Starts a new file. @throws UserError if it cannot be written.
  explicit MetricsFile(std::string path);
  /// Continues the file after a resume: lines about later steps (done before the run was resumed from an
  /// older checkpoint) and broken lines are dropped. @throws UserError.
  MetricsFile(std::string path, std::int64_t resumed_step);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  /// Appends `line`, line feed included. Returns 0 or the errno; a line that does not fit on the disk is
  /// removed completely and counted.
  int write(const std::string& line);
  std::int64_t lost_lines() const { return lost_lines_; }
  const std::string& path() const { return path_; }

 private:
  void open_file(int flags);

  std::string path_;
  int descriptor_ = -1;
  std::int64_t lost_lines_ = 0;
};

}  // namespace flotilla
