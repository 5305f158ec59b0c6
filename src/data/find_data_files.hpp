// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

/// Files, members of archives and lines that are not read, counted by kind, for the start report.
class LeftOut {
 public:
  /// @param what in the singular: "WebP image"  @param example the name of one of them; the first is kept
  /// @param advice "convert it to JPEG or PNG"; empty: nothing is to be done
  void add(std::string_view what, std::string_view example, std::string_view advice = {},
           std::int64_t count = 1);
  void add(const LeftOut& more);
  bool empty() const { return kinds_.empty(); }
  /// "; left out: 8 WebP images ("a/0.webp" …; convert it to JPEG or PNG), 1 other file ("README")", or
  /// empty.
  std::string text() const;

  std::string lines() const;  ///< A line for each kind
  /// @param line one of lines(), without its line feed  @returns false if it is none
  bool add_line(std::string_view line);
  static void pass(auto& own, auto& fields) { fields(own.kinds_); }

 private:
  struct Kind {
    static void pass(auto& own, auto& fields) { fields(own.what, own.example, own.advice, own.count); }
    std::string what;
    std::string example;
    std::string advice;
    std::int64_t count = 0;
  };
  std::vector<Kind> kinds_;
};

/// The files of a source of data, and those next to them that are not read.
struct FoundFiles {
  std::vector<std::string> paths{};
  LeftOut left_out{};
  static void pass(auto& own, auto& fields) { fields(own.paths, own.left_out); }
};

/// Whether `a` comes before `b` where numbers in names count as numbers: day_2 before day_10.
bool comes_before(std::string_view a, std::string_view b);

/// The ending of a file's name in small letters, with its point: ".jpg" of "A.JPG".
std::string small_ending(const std::string& name);

/// Whether an operating system puts files and folders of this name among others: ".DS_Store", "__MACOSX",
/// "Thumbs.db"; all hidden ones are of these.
bool is_of_system(const std::string& name);

/// The names that a pattern with braces stands for, as bash has it: "a-{000..002}.tar" for three, "{a,b}.tar"
/// for two, also "{0..10..2}", "{c..a}" and braces inside braces.
/// @throws UserError for more than a million
std::vector<std::string> expand_braces(const std::string& pattern);

/// The role of a file in a folder of data: `beside` are known companions of the data.
enum class InFolder { data, beside, other };
struct WhatIs {
  std::function<InFolder(const std::string& name)> of{};  ///< Empty: all files are data
  std::string wanted = "files";                           ///< For messages: "*.tar"
};

/// The files that `path` names: itself, if it is a file; otherwise the expansions of its braces, which need
/// not exist, and for folders and wildcards ("*", "?" and "[…]") the files in the order of comes_before. The
/// longest beginning of `path` that names a folder stands for itself, whatever its letters.
/// @param what_is of the files of folders, and of those that match wildcards unless none of these is data
/// @param left_out gets other files, hidden ones, and folders in folders
/// @throws UserError if there is none, or one is named twice
std::vector<std::string> find_data_files(const std::string& path, const WhatIs& what_is = {},
                                         LeftOut* left_out = nullptr);

}  // namespace flotilla
