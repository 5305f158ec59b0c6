// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
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

/// Index of the offsets of a file's samples: of each block of its bytes how many samples begin in it, and
/// where the first does. It does not depend on how the blocks were shared out for reading.
class SampleIndex {
 public:
  struct Block {
    std::uint16_t samples = 0;
    std::uint16_t begin = 0;  ///< Offset of the first one in the block
  };
  struct Entry {
    std::int64_t sample = 0;
    std::int64_t begin = 0;  ///< Byte
    std::int64_t bytes = 0;  ///< Distance to the next block with a sample, or to the end
  };

  SampleIndex() = default;
  /// @param block_bytes at most 64 KiB, so that a block's samples can be counted
  SampleIndex(std::int64_t file_bytes, std::int64_t block_bytes);
  std::int64_t block_bytes() const { return block_bytes_; }
  std::int64_t blocks() const { return (file_bytes_ + block_bytes_ - 1) / block_bytes_; }  ///< Of the file
  void add(std::vector<Block> blocks);                                                     ///< Appends.
  bool is_empty() const { return blocks_.empty(); }
  bool is_complete() const { return std::ssize(blocks_) == blocks(); }
  std::int64_t size() const { return size_; }  ///< Samples.
  Entry before(std::int64_t sample) const;     ///< The first sample of the block in which `sample` begins.
  /// The last sample that is known to begin at `byte` or before, and whether samples behind it may do so.
  std::pair<std::int64_t, bool> known_before(std::int64_t byte) const;

 private:
  std::int64_t block_bytes_ = 1;
  std::int64_t file_bytes_ = 0;
  std::int64_t size_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::int64_t> before_;  ///< Samples before every 64th block
};

}  // namespace flotilla
