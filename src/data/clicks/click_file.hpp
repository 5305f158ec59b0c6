// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/data/clicks/line_format.hpp"
#include "src/data/clicks/line_index.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// Where each of the two notations of labels was found first.
struct LabelsSeen {
  std::string minus;  ///< File and line of the first −1
  std::string zero;   ///< File and line of the first 0
  std::int64_t positive = 0;
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
ClickFile open_click_file(const std::string& path, const LineFormat& format, std::size_t most_entries,
                          LabelsSeen& labels, const std::string& inflated = {});

/// "/data/day_0.tsv:17: ". @param begin byte of the line
std::string place_of(const ClickFile& file, std::int64_t begin);

}  // namespace flotilla
