// SPDX-License-Identifier: Apache-2.0
#include "tests/config/random_deck.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "src/config/deck.hpp"
#include "src/config/mistakes.hpp"

namespace flotilla::test {
namespace {

using config::Key;
using config::Rule;
using config::Value;

template <class T>
const T& one_of(const std::vector<T>& choices, Random& random) {
  return choices.at(below(random, choices.size()));
}

bool is_allowed(const Rule& rule, double value) {
  const auto inside = [&](double x) {
    return std::isfinite(x) && x >= rule.low && x <= rule.high && (x > rule.low || rule.low_itself) &&
           (x < rule.high || rule.high_itself);
  };
  return inside(value) && inside(static_cast<float>(value));
}

std::int64_t draw(const Rule& rule, Random& random, std::int64_t standard) {
  if (!rule.numbers.empty()) return one_of(rule.numbers, random);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t low = std::isfinite(rule.low) ? static_cast<std::int64_t>(rule.low) : -most - 1;
  const std::int64_t high = rule.high < 9e18 ? static_cast<std::int64_t>(rule.high) : most;
  const std::int64_t near = std::isfinite(rule.low) ? low : 0;
  while (true) {
    const std::vector<std::int64_t> drawn = {low,
                                             high,
                                             standard,
                                             near + static_cast<std::int64_t>(below(random, 12)),
                                             static_cast<std::int64_t>(random() >> (1 + below(random, 63))),
                                             (std::int64_t{1} << 53) + 1};
    const std::int64_t value = one_of(drawn, random);
    if (value >= low && value <= high && (value > low || rule.low_itself) &&
        (value < high || rule.high_itself))
      return value;
  }
}

double draw(const Rule& rule, Random& random, double standard) {
  while (true) {
    const double unit = static_cast<double>(random() >> 11U) * 0x1p-53;
    const std::vector<double> drawn = {rule.low,
                                       rule.high,
                                       standard,
                                       std::nextafter(static_cast<float>(rule.low), INFINITY),
                                       std::nextafter(static_cast<float>(rule.high), -INFINITY),
                                       unit,
                                       10 * unit,
                                       -unit,
                                       std::pow(10.0, 76 * unit - 38),
                                       0.1 + 0.2,
                                       -0.0,
                                       1e-45};
    const double value = one_of(drawn, random);
    if (is_allowed(rule, value)) return value;
  }
}

bool draw(const Rule& /*rule*/, Random& random, bool /*standard*/) {
  return below(random, 2) == 0;
}

std::string draw(const Rule& rule, Random& random, const std::string& standard) {
  if (!rule.choices.empty()) return one_of(rule.choices, random);
  if (below(random, 4) == 0 && !standard.empty()) return standard;
  static const std::vector<std::string> parts = {
      "a",       "layer1", ".",  "..", "/",   " ",      "\"",     "\\", "'",   "$HOME", "${HOME}",
      "$",       "~",      "~/", "#",  "=",   "[1,2]",  "{0..3}", "%s", "é",   "漢",    "\U0001F6A2",
      "\\u0041", "1.5",    "*",  "?",  "'''", "\"\"\"", ",",      "-",  "true"};
  std::string text;
  for (std::size_t count = 1 + below(random, 4); count > 0; --count) text += one_of(parts, random);
  return text;
}

template <class T>
std::vector<T> draw(const Rule& rule, Random& random, const std::vector<T>& standard) {
  if (standard.size() >= rule.min_elements && below(random, 4) == 0) return standard;
  const std::size_t some = std::min(rule.max_elements, rule.min_elements + below(random, 4));
  const std::size_t many = std::min<std::size_t>(rule.max_elements, 400);
  std::vector<T> values;
  for (std::size_t count = below(random, 10) == 0 ? many : some; count > 0; --count)
    values.push_back(draw(rule, random, T{}));
  // What must be in order often is.
  if (below(random, 2) == 0) std::ranges::sort(values);
  return values;
}

Value drawn_value(const Key& key, const Config& config, Random& random, const OwnValue& own) {
  if (own)
    if (auto value = own(key, config, random)) return *value;
  return random_value(key, random);
}

Config config_of(const DrawnDeck& deck) {
  Config config;
  for (const Key& key : config::all_keys())
    if (const auto found = deck.find(key.path); found != deck.end()) key.field.write(config, found->second);
  return config;
}

/// Whether it is drawn for each deck that knows it: a required key, or one that selects others.
bool is_needed(const Key& key) {
  return key.presence == config::Necessity::required ||
         std::ranges::any_of(config::all_keys(),
                             [&](const Key& other) { return other.condition.selector == key.path; });
}

/// Removes what the deck's kinds do not know, and draws what they need.
void fit_to_kinds(DrawnDeck& deck, Random& random, const OwnValue& own) {
  for (const Key& key : config::all_keys()) {
    const Config config = config_of(deck);
    if (!config::is_active(key, config))
      deck.erase(key.path);
    else if (is_needed(key) && !deck.contains(key.path))
      deck.insert_or_assign(key.path, drawn_value(key, config, random, own));
  }
}

/// The path of the key that a mistake names at its place ("deck:3:1: …") or as missing; empty: none.
std::string blamed(const std::string& mistake, const DrawnDeck& deck) {
  const std::string place = "deck:";
  if (!mistake.starts_with(place)) return "";
  if (const int line = std::atoi(mistake.c_str() + place.size()); line > 0)
    return std::next(deck.begin(), line - 1)->first;
  const std::string text = mistake.substr(place.size() + 1);
  return text.substr(0, text.find_first_of(" ,"));
}

}  // namespace

std::size_t below(Random& random, std::size_t end) {
  return static_cast<std::size_t>(random() % end);
}

Value random_value(const Key& key, Random& random) {
  return std::visit([&](const auto& standard) { return Value(draw(key.rule, random, standard)); },
                    config::default_of(key));
}

DrawnDeck random_deck(Random& random, const OwnValue& own, const std::vector<std::string>& always) {
  DrawnDeck deck;
  Config config;
  const std::size_t share = 1 + below(random, 9);
  for (const Key& key : config::all_keys()) {
    if (!config::is_active(key, config)) continue;
    const bool needed = is_needed(key) || std::ranges::count(always, key.path) > 0;
    if (!needed && below(random, 10) >= share) continue;
    const Value value = drawn_value(key, config, random, own);
    key.field.write(config, value);
    deck.insert_or_assign(key.path, value);
  }
  return deck;
}

void redraw(DrawnDeck& deck, int count, Random& random, const OwnValue& own) {
  const auto keys = config::all_keys();
  while (count > 0) {
    const Key& key = keys[below(random, keys.size())];
    const Config config = config_of(deck);
    if (!config::is_active(key, config)) continue;
    deck.insert_or_assign(key.path, drawn_value(key, config, random, own));
    --count;
  }
  fit_to_kinds(deck, random, own);
}

DrawnDeck deck_of(const std::string& text) {
  const Config config = load_deck({.path = "deck", .text = text, .overrides = {}}).config;
  DrawnDeck deck;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Key& key = *config::find_key(line.substr(0, line.find(" = ")));
    deck.emplace(key.path, key.field.read(config));
  }
  return deck;
}

std::string text_of(const DrawnDeck& deck) {
  std::string text;
  for (const auto& [path, value] : deck) text += path + " = " + config::toml_text(value) + "\n";
  return text;
}

bool make_good(DrawnDeck& deck, Random& random, const OwnValue& own) {
  for (int attempt = 0; attempt < 60; ++attempt) {
    try {
      load_deck({.path = "deck", .text = text_of(deck), .overrides = {}});
      return true;
    } catch (const config::MistakesError& error) {
      std::set<std::string> paths;
      for (const std::string& line : error.lines) paths.insert(blamed(line, deck));
      for (const std::string& path : paths) {
        const Key* const key = config::find_key(path);
        if (key == nullptr) return false;
        const bool was_there = deck.erase(path) > 0;
        if (!was_there || is_needed(*key) || below(random, 3) == 0)
          deck.insert_or_assign(path, drawn_value(*key, config_of(deck), random, own));
      }
      fit_to_kinds(deck, random, own);
    }
  }
  return false;
}

int load_random_decks(Random& random, int count) {
  // Texts that must be known ones; what a text of any letters can be stays as its rule says.
  const OwnValue known = [](const Key& key, const Config& config, Random& any) -> std::optional<Value> {
    using Texts = std::vector<std::string>;
    if (key.path == "model.layers") return Texts{"flatten", cat("linear ", config.model.output_width())};
    if (key.path == "optimizer.rates") return Texts{cat("a\"b'c$", any(), " ", 1 + below(any, 9))};
    if (key.path == "run.resume_with") return Texts{"schedule"};
    if (key.path == "roles.server_ranks") return Value("0-3");
    if (key.path == "roles.worker_ranks") return Value("4");
    return std::nullopt;
  };
  int refused = 0;
  for (int accepted = 0; accepted < count;) {
    DrawnDeck deck = random_deck(random, known);
    make_good(deck, random, known) ? ++accepted : ++refused;
  }
  return refused;
}

}  // namespace flotilla::test
