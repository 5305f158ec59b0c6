// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/values.hpp"

namespace flotilla {

/// The mistakes in many files, reported together: the first ten, and how many there are.
class MistakeList {
 public:
  /// Adds one. @param text a sentence with file and position; kept for the first ten only
  /// @param kind of mistakes of which the first tells enough; empty: each is told
  void add(const std::string& text, const std::string& kind = {});
  /// Counts another mistake of a kind that is kept; false: there is none of it.
  bool count_another(const std::string& kind, std::int64_t times = 1);
  /// Runs `part`; its UserError becomes a mistake.
  void attempt(const std::function<void()>& part);
  /// Appends the mistakes of another list.
  void add(const MistakeList& more);
  bool empty() const { return count_ == 0; }
  /// Whether the text of another mistake would be kept: to find a position may cost time.
  bool keeps_more() const;
  /// @param of what has them, "train-*.tar"  @throws UserError with all of them unless there are none
  void throw_if_any(const std::string& of) const;

  static void pass(auto& own, auto& fields) { fields(own.count_, own.kept_); }

 private:
  struct Kept {
    static void pass(auto& own, auto& fields) { fields(own.text, own.kind, own.times); }
    std::string text;
    std::string kind{};
    std::int64_t times = 1;

    std::string told() const;
  };

  std::int64_t count_ = 0;
  std::vector<Kept> kept_;
};

/// Text of a data file in quotes, fit for a message: it may be a whole file by mistake.
inline std::string shown(std::string_view text) {
  constexpr std::size_t most = 120;
  return text.size() <= most ? config::quoted(text) : config::quoted(text.substr(0, most)) + " …";
}

/// A path fit for a message, also where what should be one is a whole line of a file.
inline std::string shown_path(std::string_view path) {
  constexpr std::size_t most = 1000;
  return path.size() <= most ? config::printable(path) : config::printable(path.substr(0, most)) + " …";
}

}  // namespace flotilla
