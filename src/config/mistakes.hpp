// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/config/deck_tree.hpp"

namespace flotilla::config {

/// Where a value was written.
struct Origin {
  DeckPosition position;  ///< In the deck
  std::string override;   ///< "train.batch_size=-4"; empty if it is the deck's
  bool from_override() const { return !override.empty(); }
};

/// "deck.toml:12:3", "command line: model.classes=3".
std::string place_of(const std::string& file, const Origin& origin);

/// Collects the mistakes of a deck.
class Mistakes {
 public:
  explicit Mistakes(std::string file) : file_(std::move(file)) {}
  void add(const Origin& origin, const std::string& text);
  bool empty() const { return found_.empty(); }
  /// @throws UserError listing all mistakes, in the order of the deck's text, then the command line's, if
  /// there are any
  void throw_if_any() const;

 private:
  struct Mistake {
    Origin origin;
    std::string text;
  };
  std::string file_;
  std::vector<Mistake> found_;
};

}  // namespace flotilla::config
