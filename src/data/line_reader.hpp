// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla {

/// The lines of text files, one after another from any byte on, in a buffer that is reused. Reads further
/// ahead the longer it reads without a jump. Mapped memory would spare a copy (25 ns a line), but a mapped
/// file that is truncated meanwhile ends the run with SIGBUS.
class LineReader {
 public:
  LineReader();
  /// The next line is the one at byte `begin`. `file` must stay open meanwhile. Reads about `bytes` first.
  void seek(const File& file, std::int64_t begin, std::int64_t bytes);
  /// False at the end of the file. `line` has neither "\n" nor "\r\n" and is valid until the next call.
  /// @throws UserError for a line of more than 16 MiB: no text file.
  bool next(std::string_view& line);
  std::int64_t begin() const { return line_begin_; }  ///< The byte at which the last line begins.

 private:
  bool read_more();

  const File* file_ = nullptr;
  std::vector<char> buffer_;
  std::int64_t window_ = 0;  ///< The file's byte that buffer_ begins with
  std::size_t filled_ = 0;   ///< Bytes of buffer_ that are the file's
  std::size_t at_ = 0;       ///< Position in buffer_ at which the next line begins
  std::size_t step_ = 0;     ///< Bytes to read next
  std::int64_t line_begin_ = 0;
  bool ended_ = false;  ///< The window reaches the end of the file
};

/// The number, from 1 on, of the line that begins at byte `begin`. Reads all before it: for messages.
std::int64_t line_number(const File& file, std::int64_t begin);

/// Index of the offsets of a file's samples: all of them if they are few, otherwise every 2ⁿ-th, so that
/// memory is bounded.
class LineIndex {
 public:
  struct Entry {
    std::int64_t sample = 0;
    std::int64_t begin = 0;  ///< Byte
    std::int64_t bytes = 0;  ///< Distance to the next entry, or to the end
  };

  explicit LineIndex(std::size_t max_entries);
  void add(std::int64_t begin);                     ///< Appends a sample.
  void set_end(std::int64_t end) { end_ = end; }    ///< Sets the end of the file.
  std::int64_t size() const { return size_; }       ///< Samples.
  std::int64_t stride() const { return stride_; }   ///< Samples from entry to entry.
  std::int64_t sample_at(std::int64_t byte) const;  ///< The last indexed one that begins at `byte` or before.
  Entry before(std::int64_t sample) const;          ///< The last entry at `sample` or before.

 private:
  std::size_t max_entries_;
  std::vector<std::int64_t> begins_;
  std::int64_t size_ = 0;
  std::int64_t stride_ = 1;
  std::int64_t end_ = 0;
};

}  // namespace flotilla
