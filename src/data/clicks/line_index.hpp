// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flotilla {

/// Index of the offsets of a file's samples: of all of them if they are few, else of every 2ⁿ-th, so that
/// memory is bounded.
class LineIndex {
 public:
  struct Entry {
    std::int64_t sample = 0;
    std::int64_t begin = 0;  ///< Byte
    std::int64_t bytes = 0;  ///< Distance to the next entry, or to the end
  };

  explicit LineIndex(std::size_t most_entries);
  void add(std::int64_t begin);                     ///< Appends a sample.
  void set_end(std::int64_t end) { end_ = end; }    ///< Of the file.
  std::int64_t size() const { return size_; }       ///< Samples.
  std::int64_t stride() const { return stride_; }   ///< Samples from entry to entry.
  std::int64_t sample_at(std::int64_t byte) const;  ///< The last indexed one that begins at `byte` or before.
  Entry before(std::int64_t sample) const;          ///< The last entry at `sample` or before.

 private:
  std::size_t most_entries_;
  std::vector<std::int64_t> begins_;
  std::int64_t size_ = 0;
  std::int64_t stride_ = 1;
  std::int64_t end_ = 0;
};

}  // namespace flotilla
