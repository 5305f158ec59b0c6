// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/data/clicks/line_format.hpp"
#include "src/data/dataset.hpp"
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
  std::int64_t lines_without_sample = 0;  ///< Empty ones and comments
  LineIndex index;
};

/// Opens a plain or a gzip file, recognised by its content, and reads it once to index its samples. All
/// labels are checked, which costs nothing extra, and the first 100 samples completely, which finds files of
/// another kind; checking all columns would take minutes for the 45 million lines of Criteo's logs, and is
/// done when a sample is read.
/// @param inflated File::handle() of a copy of the gzip file; empty: it is inflated here
/// @throws UserError naming file and line
ClickFile open_click_file(const std::string& path, const LineFormat& format, std::size_t max_entries,
                          LabelsSeen& labels, const std::string& inflated = {});

/// Reads files up to the first label that is not 1, which tells how the others are written.
/// @param inflated DatasetUse::inflated  @returns an undecided result if files cannot be read: opening them
/// reports that
LabelsSeen first_labels(const std::vector<std::string>& paths, const LineFormat& format,
                        const std::map<std::string, std::string>& inflated);

/// "/data/day_0.tsv:17: ". @param begin byte of the line
std::string place_of(const ClickFile& file, std::int64_t begin);

/// Sample offsets of an index, 8 MB: of Criteo's 45 million lines every 64th is indexed, 15 kB apart.
inline constexpr std::size_t default_index_entries = std::size_t{1} << 20;

/// The click data that `path` names (find_data_files), sample after sample and file after file. Samples are
/// read from disk each time.
/// @param index_entries number of indexed sample offsets, over all files, but at least 64 for each
/// @param inflated DatasetUse::inflated
/// @param training the path of the training data, whose labels say which class a 1 is; empty: `path` is of
/// them
/// @throws UserError naming file, line and remedy
std::unique_ptr<Dataset> make_click_dataset(const std::string& path, std::unique_ptr<const LineFormat> format,
                                            std::size_t index_entries = default_index_entries,
                                            const std::map<std::string, std::string>& inflated = {},
                                            const std::string& training = {});

}  // namespace flotilla
