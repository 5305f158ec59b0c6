// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/find_data_files.hpp"

namespace flotilla {

/// The images of a data set, in order: one text with all paths and 16 bytes for each image.
struct ImageList {
  struct Entry {
    std::uint64_t begin = 0;   ///< Start of the path in `text`
    std::uint32_t length = 0;  ///< Length of the path in bytes
    std::int32_t label = 0;
  };
  /// A list file.
  struct Part {
    static void pass(auto& own, auto& fields) { fields(own.begin, own.source, own.root); }
    std::uint64_t begin = 0;  ///< Position in `text`
    std::string source{};
    std::string root{};  ///< The folder that its relative paths begin at
  };
  std::string source;         ///< The list file, the pattern of several, or the folder of the classes
  std::string root;           ///< Folder in which relative paths begin; empty: the current one
  std::vector<Part> parts{};  ///< The list files; empty: the images are those of a folder
  std::string below;          ///< Folder that is put before absolute paths, for staged copies; empty: none
  std::string text;           ///< The list files' whole texts, or the paths of a folder
  std::vector<Entry> entries;
  std::string description;  ///< "1803 images of /data/train.txt, paths from /data/train (…)"

  LeftOut left_out{};

  std::int64_t size() const { return std::ssize(entries); }
  std::string_view written(std::int64_t i) const;  ///< The path as the list has it.
  std::string path(std::int64_t i) const;          ///< The path to open.
  std::string place(std::int64_t i) const;         ///< "/data/train.txt:17: "; empty for a folder.
  bool is_file() const { return !parts.empty(); }
  static void pass(auto& own, auto& fields) {
    fields(own.source, own.root, own.parts, own.below, own.text, own.entries, own.description, own.left_out);
  }
  const Part& part_at(std::uint64_t begin) const;  ///< @param begin in `text`
  std::string line_at(std::uint64_t begin) const;  ///< "/data/train.txt:17"
};

struct ImageListOptions {
  std::string root;              ///< Empty: the folder next to the list with its name, otherwise the list's
  std::int64_t classes = 0;      ///< Labels are 0 … classes − 1
  bool unique = false;           ///< An image must not be listed twice
  std::string below{};           ///< See ImageList
  bool missing_allowed = false;  ///< Files may be missing, but not all
  std::string root_key;          ///< Key for messages: "data.train.root"; empty: there is none
  bool labelled = true;          ///< False: a line is a path, and a whole number after it is ignored
};

/// Reads a list, or several (find_data_files): one image a line, its path, white space, its label (the last
/// field: paths may hold spaces). Empty lines are skipped; CRLF and a UTF-8 byte-order mark are understood.
/// Up to 1,000 files are checked for existence, spread evenly over the list: more would burden a parallel
/// file system.
/// @throws UserError with the first mistakes of all kinds, each with file:line.
ImageList read_image_list(const std::string& path, const ImageListOptions& options);

}  // namespace flotilla
