// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "src/config/keys.hpp"

namespace flotilla::test {

using Random = std::mt19937_64;

/// A deck by the paths of its keys, which may break rules over several keys.
using DrawnDeck = std::map<std::string, config::Value>;

/// A value for a key, instead of one from the key's rule; nothing: the rule's.
/// @param config what was drawn before
using OwnValue =
    std::function<std::optional<config::Value>(const config::Key& key, const Config& config, Random& random)>;

/// An integer of [0, end).
std::size_t below(Random& random, std::size_t end);

/// A value that keeps the key's rule: often at its borders, texts with awkward letters.
config::Value random_value(const config::Key& key, Random& random);

/// Draws keys that the drawn kinds know: required ones and `always`, of the others a share that is drawn for
/// the deck.
DrawnDeck random_deck(Random& random, const OwnValue& own = {}, const std::vector<std::string>& always = {});

/// Draws new values for `count` keys that the deck's kinds know, and for the keys that these then require.
void redraw(DrawnDeck& deck, int count, Random& random, const OwnValue& own = {});

/// The deck that text_of() wrote. @throws MistakesError if load_deck() refuses it
DrawnDeck deck_of(const std::string& text);

/// The deck as TOML, a line for each key in the order of its paths.
std::string text_of(const DrawnDeck& deck);

/// Removes or redraws what load_deck() refuses, until it accepts the deck or 60 attempts were made.
/// @returns whether it is accepted
bool make_good(DrawnDeck& deck, Random& random, const OwnValue& own = {});

/// Draws decks over all keys and the whole ranges of their rules until load_deck(), which reads the resolved
/// deck back, accepted `count` of them. @returns how many it refused @throws what load_deck() does not refuse
int load_random_decks(Random& random, int count);

}  // namespace flotilla::test
