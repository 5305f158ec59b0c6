// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/deck_tree.hpp"

namespace flotilla::config {

/// The place where a value was written.
struct Origin {
  DeckPosition position;  ///< Position in the deck
  std::string override;   ///< "train.batch_size=-4"; empty if it is the deck's
  std::string file = {};  ///< Place of an override in a file, "plan.toml:7:8"; empty: the command line
  bool from_override() const { return !override.empty(); }
};

/// "deck.toml:12:3", "command line: model.classes=3".
std::string place_of(const std::string& file, const Origin& origin);

/// All mistakes of a deck, or of another file of its syntax.
struct MistakesError : UserError {
  /// @param what the file that has them: "deck"
  MistakesError(const std::string& what, std::vector<std::string> each);
  std::vector<std::string> lines;  ///< "deck.toml:12:3: train.batch_size must be positive, got -4"
};

/// Collects the mistakes of a deck.
class Mistakes {
 public:
  explicit Mistakes(std::string file) : file_(std::move(file)) {}
  void add(const Origin& origin, const std::string& text);
  bool empty() const { return found_.empty(); }
  /// All, with their places: in the order of the deck's text, then the command line's.
  std::vector<std::string> lines() const;
  /// @throws MistakesError if there are any
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
