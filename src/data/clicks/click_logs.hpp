// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/clicks/line_format.hpp"
#include "src/data/data_file.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/line_reader.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// The first place of each notation of labels.
struct LabelsSeen {
  std::string minus{};  ///< File and line of the first −1
  std::string zero{};   ///< File and line of the first 0
  std::string two{};    ///< File and line of the first 2
  std::int64_t ones = 0;
  std::int64_t twos = 0;

  static void pass(auto& own, auto& fields) { fields(own.minus, own.zero, own.two, own.ones, own.twos); }
  /// Whether a label other than 1 was seen: it decides which class 1 denotes.
  bool tell() const { return !minus.empty() || !zero.empty() || !two.empty(); }
  /// Adds a label. @throws UserError if it is of another notation than those before
  void add(int label, const std::string& path, std::int64_t line);
};

/// A text file of samples, a line each, and the index of their offsets.
struct ClickFile {
  std::string path;
  File bytes;  ///< The file itself, or its inflated nameless copy
  bool inflated = false;
  SampleIndex index;
};

/// What one rank has read of a file: the lines that begin in a range of its blocks.
struct ClickPiece {
  std::int64_t file = 0;   ///< Its number in ClickLogs::files
  std::int64_t lines = 0;  ///< Also those without a sample
  std::int64_t without_sample = 0;
  std::int64_t ones = 0;
  std::int64_t twos = 0;
  std::array<std::int64_t, 3> first_lines{};  ///< The first with label −1, 0, 2, from 1 on; 0: there is none
  std::int64_t mistake_line = 0;  ///< Line of the mistake, which may lie behind the piece; 0: there is none
  bool mistake_in_line = false;   ///< False: the text names the place
  bool complete = false;          ///< False: reading ended at the mistake
  std::string mistake{};
  std::vector<SampleIndex::Block> blocks{};

  static void pass(auto& own, auto& fields) {
    fields(own.file, own.lines, own.without_sample, own.ones, own.twos, own.first_lines, own.mistake_line,
           own.mistake_in_line, own.complete, own.mistake, own.blocks);
  }
};

/// Options for opening click logs.
struct ClickOpening {
  const std::string& path;      ///< See find_data_files()
  const std::string& training;  ///< Path of the training data, whose labels say which class a 1 is; empty:
                                ///< `path` is of them
  const LineFormat& format;
  const FileKind& kind;
  const std::map<std::string, std::string>& inflated;  ///< DatasetUse::inflated
  std::int64_t block_bytes = 0;  ///< Bytes of a block of the index; 0: by the size of the files
};

/// Files of click data, opened, and where their samples are. They are read once to index the samples, by all
/// ranks of a job together, each a share of the bytes that ends at a line: all labels are checked, which
/// costs nothing extra, and the first 100 samples of each file completely, which finds files of another kind;
/// checking all columns would take minutes for the 45 million lines of Criteo's logs, and is done when a
/// sample is read.
struct ClickLogs {
  std::vector<ClickFile> files;
  LeftOut left_out{};
  LabelsSeen labels{};
  LabelsSeen of_training{};
  std::string mistake{};  ///< Opening the data reports it; empty: there is none

  /// Finds the files, plain or compressed by gzip, recognises them by their contents and opens them.
  /// @throws UserError naming the file
  static ClickLogs open(const ClickOpening& opening);
  /// What the other ranks must know of open(): with its text of_listed() opens the same files, each once.
  std::string listed() const;
  /// @throws UserError where a file is missing or of another size than on the rank that listed it
  static ClickLogs of_listed(std::string_view text, const std::map<std::string, std::string>& inflated);

  /// Reads share `part` of `parts` of all blocks.
  std::vector<ClickPiece> scan(const LineFormat& format, int part, int parts) const;
  /// Takes the pieces of all parts, in order. @throws UserError naming file and line of the first mistake,
  /// which does not depend on the number of parts
  void merge(std::vector<ClickPiece> pieces);
};

}  // namespace flotilla
