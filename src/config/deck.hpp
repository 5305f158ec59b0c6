// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/collect_keys.hpp"
#include "src/config/config.hpp"
#include "src/config/keys.hpp"

namespace flotilla {

/// A deck's text and the overrides of the command line.
struct DeckSource {
  std::string path;  ///< For messages, and the folder that paths in the deck are relative to
  std::string text;  ///< TOML
  std::vector<std::string> overrides;  ///< "key.path=value", from the command line
  std::vector<config::PlacedOverride> written =
      {};              ///< Overrides of another file, applied before `overrides`
  bool saved = false;  ///< The text is the resolved deck of a checkpoint: its paths are literal
};

struct LoadedDeck {
  Config config;
  std::vector<std::string>
      notes;  ///< Lines for the start of the run: keys dropped because a kind was overridden
  std::map<std::string, std::string, std::less<>> places;  ///< Place of each given key: "deck.toml:12:3"

  /// The text of a mistake that data or ranks reveal; if it begins with a key's path, preceded by the key's
  /// position.
  std::string placed(const std::string& mistake) const;
};

/// Reads, overlays and checks a deck. Pure apart from resolving relative paths.
/// @throws MistakesError that lists all mistakes at once, each with file:line:column and a suggestion.
LoadedDeck load_deck(const DeckSource& source);

/// The text of a deck file. @throws UserError if it cannot be read.
/// @param what is read and an example of it, for messages
std::string read_deck_file(const std::string& path, const std::string& what = "deck",
                           const std::string& example = "inputs/mnist_mlp.toml");

/// The deck of a checkpoint, read leniently: keys that this version does not know are left out.
/// @throws UserError if it is not TOML.
Config read_saved_deck(const std::string& text);

/// A key that has another value in a checkpoint's deck than in the current one.
struct ResumeDifference {
  std::string key;
  std::string before;  ///< Value as TOML; "left out" for a key without a default
  std::string now;
  config::OnResume on_resume;

  std::string text() const;  ///< "model.widths: [128, 128] in the checkpoint, [64] now"
  bool is_of_machine() const { return on_resume == config::OnResume::of_machine; }
  std::string change() const;  ///< "model.widths [128, 128] → [64]"
};

/// The differences between two resolved decks, key by key, except for those of the start itself (of_start)
/// and keys that only one of them knows, which follow from the kind that differs.
std::vector<ResumeDifference> differences_at_resume(const std::string& saved_deck,
                                                    const std::string& current_deck);

/// The changes of these differences, "train.batch_size 16 → 64, train.epochs 2 → 1".
std::string changes_of(const std::vector<ResumeDifference>& differences);

namespace config {

/// The first line of a resolved deck. The paths of such a deck are literal.
inline constexpr std::string_view mark_of_resolved =
    "# Resolved by Flotilla: in the paths below, ~ and $ stand for themselves.\n";

/// The configuration as a deck: every key of its kinds, paths absolute. Loads to the same Config.
std::string resolved_text(const Config& config);

}  // namespace config

/// inputs/reference.toml: every key with its default, type, rule and help, made from the key table.
std::string reference_deck();

/// The part of reference_deck() about the keys whose paths begin with `what` ("strategy", "train.ep") or
/// whose name it is ("learning_rate"). Empty: a line for each key, with its default.
/// @throws UserError for another text, with similar keys
std::string explained_keys(const std::string& what);

}  // namespace flotilla
