// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flotilla {

/// Where the samples of a file begin: all of them if they are few, else every 2ⁿ-th, so that memory is
/// bounded.
class LineIndex {
 public:
  struct Entry {
    std::int64_t sample = 0;
    std::int64_t begin = 0;  ///< Byte
    std::int64_t bytes = 0;  ///< From there to the next entry, or to the end
  };

  explicit LineIndex(std::size_t most_entries);
  void add(std::int64_t begin);                    ///< The next sample, behind all others.
  void set_end(std::int64_t end) { end_ = end; }   ///< Of the file.
  std::int64_t size() const { return size_; }      ///< Samples.
  std::int64_t stride() const { return stride_; }  ///< Samples from entry to entry.
  std::int64_t sample_at(
      std::int64_t byte) const;  ///< The last of those in reach that begins at `byte` or before it.
  Entry before(std::int64_t sample) const;  ///< The last entry that is not behind `sample`.

 private:
  std::size_t most_entries_;
  std::vector<std::int64_t> begins_;
  std::int64_t size_ = 0;
  std::int64_t stride_ = 1;
  std::int64_t end_ = 0;
};

}  // namespace flotilla
