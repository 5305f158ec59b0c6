// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_search.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>
#include <ranges>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/suggestions.hpp"
#include "src/config/values.hpp"

namespace flotilla {
namespace config {
namespace {

constexpr std::size_t max_found = 5;
constexpr std::size_t page_width = 100;
constexpr std::size_t longest_sentence = 220;
constexpr double min_share = 0.1;  ///< Share of the best key's points that a key needs to be shown

/// Words of a question that say nothing about a key.
constexpr std::string_view empty_words[] = {"a",  "and", "do",  "for", "how", "i",   "in",   "is",
                                            "of", "on",  "set", "the", "to",  "use", "what", "with"};

using Words = std::vector<std::string>;

/// The words in lower case: "Early-Stopping" → "early", "stopping".
Words words_of_text(std::string_view text) {
  Words words;
  bool inside = false;
  for (const char letter : lower_case(text)) {
    const bool is_part = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    if (is_part && !inside) words.emplace_back();
    if (is_part) words.back() += letter;
    inside = is_part;
  }
  return words;
}

/// Removes the separators of words: "EarlyStopping" and "early_stopping" are one name.
std::string joined_words(std::string_view text) {
  std::string joined;
  for (const std::string& word : words_of_text(text)) joined += word;
  return joined;
}

/// Each of the names that commas separate, without what separates its words.
Words joined_names(std::string_view names) {
  Words joined;
  for (const auto name : std::views::split(names, ','))
    joined.push_back(joined_words(std::string_view(name.begin(), name.end())));
  return joined;
}

/// The words of a key that are searched.
struct Entry {
  const Key* key;
  Words other_names;           ///< Each without separators
  Words words_of_other_names;  ///< Other names and allowed values, word by word
  Words name;
  Words table;
  Words help;
};

void append(Words& words, std::string_view text) {
  for (std::string& word : words_of_text(text)) words.push_back(std::move(word));
}

Entry entry_of(const Key& key) {
  Entry entry{.key = &key,
              .other_names = {},
              .words_of_other_names = {},
              .name = words_of_text(key.name()),
              .table = words_of_text(key.table()),
              .help = words_of_text(key.help)};
  for (const std::string& choice : key.rule.choices) append(entry.words_of_other_names, choice);
  for (const Topic& topic : topics())
    for (const TopicKey& listed : topic.keys) {
      if (listed.path != key.path) continue;
      append(entry.words_of_other_names, listed.other_names);
      std::ranges::move(joined_names(listed.other_names), std::back_inserter(entry.other_names));
    }
  return entry;
}

/// The match of a word of the question with the best of `words`: 1 equal, less for a prefix, 0 none.
double agreement(const std::string& asked, const Words& words) {
  double best = 0.0;
  for (const std::string& word : words) {
    if (word == asked) return 1.0;
    const std::size_t shorter = std::min(asked.size(), word.size());
    const std::size_t longer = std::max(asked.size(), word.size());
    const bool is_abbreviation = shorter >= 3 && word.starts_with(asked);
    const bool is_another_form = shorter >= 4 && 3 * shorter >= 2 * longer && asked.starts_with(word);
    if (is_abbreviation || is_another_form)
      best = std::max(best, static_cast<double>(shorter) / static_cast<double>(longer));
  }
  return best * best;
}

/// The relevance of the key for the words. 0: none
double score(const Entry& entry, const Words& asked) {
  std::string whole;
  double sum = 0.0;
  double matched = 0.0;
  for (const std::string& word : asked) {
    whole += word;
    const double best =
        std::max({8.0 * agreement(word, entry.name), 7.0 * agreement(word, entry.words_of_other_names),
                  4.0 * agreement(word, entry.table), 2.0 * agreement(word, entry.help)});
    sum += best;
    matched += best > 0.0 ? 1.0 : 0.0;
  }
  sum *= matched / static_cast<double>(asked.size());
  if (whole == joined_words(entry.key->path)) sum += 80.0;
  if (whole == joined_words(entry.key->name())) sum += 40.0;
  if (whole == joined_words(entry.key->table())) sum += 10.0;
  if (std::ranges::count(entry.other_names, whole) > 0) sum += 50.0;
  // A key that few decks have ranks below others that match as well.
  return entry.key->condition.selector.empty() ? sum : 0.95 * sum;
}

/// The text in lines of at most `page_width` letters, each indented by four spaces.
std::string indented(const std::string& text) {
  std::string out;
  std::size_t column = page_width;
  for (const auto part : std::views::split(text, ' ')) {
    const std::string_view word(part.begin(), part.end());
    const bool breaks = column + 1 + word.size() > page_width;
    out += breaks ? "\n    " : " ";
    column = (breaks ? 4 : column + 1) + word.size();
    out += word;
  }
  return out.substr(1) + "\n";
}

/// The first sentence of the key's help, or as much of it as a glance takes, and the words that it may be.
std::string sentence_of(const Key& key) {
  std::string text = key.help;
  for (std::size_t end = text.find(". "); end != text.npos; end = text.find(". ", end + 1))
    if (std::islower(static_cast<unsigned char>(text[end + 2])) == 0) text.resize(end);
  if (text.size() > longest_sentence) text = text.substr(0, text.find_last_of(";,", longest_sentence)) + " …";
  return cat(text, key.rule.choices.empty() ? "" : ": " + rule_text(key.rule), ".");
}

std::string headline(const Key& key) {
  if (key.presence == Necessity::required) return key.path + "   (must be given)";
  if (!key.default_text.empty()) return cat(key.path, "   (default: ", key.default_text, ")");
  if (key.presence == Necessity::optional) return key.path + "   (may be left out)";
  return cat(key.path, " = ", toml_text(default_of(key)));
}

/// A word of keys that one of the question is likely a slip of; empty: there is none.
std::string similar_word(const Words& asked, const std::vector<Entry>& entries) {
  Words known;
  for (const Entry& entry : entries)
    for (const Words* words : {&entry.name, &entry.table, &entry.words_of_other_names})
      known.insert(known.end(), words->begin(), words->end());
  for (const std::string& word : asked)
    if (std::string meant = nearest_word(word, known); !meant.empty()) return meant;
  return {};
}

/// All keys: first those that topics list, in their order.
std::vector<Entry> all_entries() {
  std::vector<const Key*> keys;
  for (const Topic& topic : topics())
    for (const TopicKey& listed : topic.keys) keys.push_back(find_key(listed.path));
  for (const Key& key : all_keys()) keys.push_back(&key);
  std::vector<Entry> entries;
  for (const Key* key : keys)
    if (std::ranges::find(entries, key, &Entry::key) == entries.end()) entries.push_back(entry_of(*key));
  return entries;
}

}  // namespace

std::vector<const Key*> keys_called(std::string_view name) {
  const std::string whole = joined_words(name);
  std::vector<const Key*> found;
  for (const Key& key : all_keys())
    if (joined_words(key.name()) == whole) found.push_back(&key);
  if (!found.empty() || whole.size() < 2) return found;
  for (const Topic& topic : topics())
    for (const TopicKey& listed : topic.keys)
      if (std::ranges::count(joined_names(listed.other_names), whole) > 0)
        found.push_back(find_key(listed.path));
  return found;
}

}  // namespace config

std::string keys_by_topic() {
  std::string text =
      "The keys that most decks need, by topics. flotilla keys WORD... finds others and says what they\n"
      "mean: flotilla keys learning rate. flotilla keys --all lists them all, flotilla keys train.epochs\n"
      "explains one in full, flotilla keys train. all of a table.\n";
  for (const config::Topic& topic : config::topics()) {
    std::string paths;
    for (const config::TopicKey& key : topic.keys) paths += cat(paths.empty() ? "" : ", ", key.path);
    text += cat("\n", topic.title, "\n", config::indented(paths));
  }
  text.pop_back();
  return text;
}

std::string found_keys(const std::vector<std::string>& words) {
  config::Words asked;
  std::string question;
  for (const std::string& word : words) {
    question += (question.empty() ? "" : " ") + word;
    config::append(asked, word);
  }
  std::erase_if(asked, [&](const std::string& word) {
    return asked.size() > 1 && std::ranges::count(config::empty_words, word) > 0;
  });
  const std::vector<config::Entry> entries = config::all_entries();
  std::vector<std::pair<double, const config::Key*>> found;
  for (const config::Entry& entry : entries)
    if (const double points = asked.empty() ? 0.0 : config::score(entry, asked); points > 0.0)
      found.emplace_back(points, entry.key);
  if (found.empty()) {
    const std::string similar = config::similar_word(asked, entries);
    throw UserError(cat("no key of a deck has to do with ", config::quoted(question),
                        similar.empty() ? "" : cat("; did you mean ", config::quoted(similar), "?"),
                        "; flotilla keys shows the topics"));
  }
  std::ranges::stable_sort(found, std::greater(), &std::pair<double, const config::Key*>::first);
  found.resize(std::min(found.size(), config::max_found));
  std::erase_if(found, [least = config::min_share * found.front().first](const auto& each) {
    return each.first < least;
  });
  std::string text;
  for (const auto& [points, key] : found)
    text += cat(text.empty() ? "" : "\n", config::headline(*key), "\n",
                config::indented(config::sentence_of(*key)));
  return cat(text, "\nIn full: flotilla keys ", found.front().second->path);
}

}  // namespace flotilla
