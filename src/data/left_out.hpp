// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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

  /// For another process: a line for each kind, to be added by add_line() without its line feed.
  std::string lines() const;
  /// @returns false if it is no such line
  bool add_line(std::string_view line);

 private:
  struct Kind {
    std::string what;
    std::string example;
    std::string advice;
    std::int64_t count = 0;
  };
  std::vector<Kind> kinds_;
};

}  // namespace flotilla
