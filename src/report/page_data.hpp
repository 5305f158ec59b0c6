// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/report/run_record.hpp"

namespace flotilla::report {

/// The values of a deck as TOML by their keys' paths, "train.epochs". What is no TOML gives no values.
std::map<std::string, std::string> deck_values(const std::string& deck);

/// A key that has not the same value in all decks.
struct DeckDifference {
  std::string key;
  std::vector<std::string> values;  ///< One for each deck; empty where it lacks the key
};

/// The keys that differ, except run.output, which is specific to each run. @param decks texts of deck.toml
std::vector<DeckDifference> deck_differences(const std::vector<std::string>& decks);

/// The runs as the JSON that the page's script draws, in one line, and their groups: of several runs with
/// their mean. Differences are those of the groups' first decks. No "<" is in it, so that no text of a run
/// can end the element that holds it.
std::string page_data(const std::vector<RunRecord>& runs);

/// A page that needs no other file and no network.
std::string page_of(const std::vector<RunRecord>& runs);

/// The files of page/, which the build puts into the program; the scripts are one text. The page has places
/// for the others: "/*style*/", "/*script*/" and "/*data*/", the last one for page_data().
extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view page_js;

}  // namespace flotilla::report
