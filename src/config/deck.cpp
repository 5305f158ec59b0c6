// SPDX-License-Identifier: Apache-2.0
#include "src/config/deck.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "kernels/error.hpp"
#include "src/config/collect_keys.hpp"
#include "src/config/deck_tree.hpp"
#include "src/config/keys.hpp"
#include "src/config/mistakes.hpp"
#include "src/config/paths.hpp"
#include "src/config/presets.hpp"
#include "src/config/rules.hpp"

namespace flotilla {

namespace config {
namespace {

/// The defaults with the deck's values over them and the command line's over those.
Config merged(const DeckValues& given) {
  Config config;
  // Written in the order of the table: the strategy is chosen before its keys are stored.
  for (const Key& key : all_keys())
    if (const Given* value = given.find(key.path)) key.field.write(config, value->value);
  return config;
}

/// Whether the key is selected by that selector, or by a key that is.
bool depends_on(const Key& key, std::string_view selector) {
  if (key.condition.selector.empty()) return false;
  return key.condition.selector == selector || depends_on(*find_key(key.condition.selector), selector);
}

/// The deck's keys that the selector's overridden value does not know, but the deck's own value does.
std::vector<std::string> replaced_by(const std::string& selector, const DeckValues& given) {
  DeckValues deck_only;
  deck_only.deck = given.deck;
  const Config before = merged(deck_only);
  const Config after = merged(given);
  std::vector<std::string> replaced;
  for (const Key& key : all_keys()) {
    const bool is_selected = depends_on(key, selector) && given.deck.contains(key.path);
    if (is_selected && is_active(key, before) && !is_active(key, after)) replaced.push_back(key.path);
  }
  // A dropped selector drops its keys as well.
  for (std::size_t i = 0; i < replaced.size(); ++i)
    for (const Key& key : all_keys())
      if (key.condition.selector == replaced[i] && given.deck.contains(key.path) &&
          std::ranges::find(replaced, key.path) == replaced.end())
        replaced.push_back(key.path);
  return replaced;
}

std::string note(const std::vector<std::string>& dropped, const Origin& origin) {
  std::string text =
      cat("left out of the deck, because ", origin.file.empty() ? "the command line" : origin.file, " says ",
          printable(origin.override), ": ");
  for (std::size_t i = 0; i < dropped.size(); ++i) text += (i == 0 ? "" : ", ") + dropped[i];
  return text;
}

std::string needs_text(const Condition& condition, const Config& config) {
  const Key* selector = find_key(condition.selector);
  if (!is_active(*selector, config)) return needs_text(selector->condition, config);
  std::string text = " needs " + condition.selector + " to be ";
  if (condition.values.size() > 1) text += "one of ";
  const Value now = selector->field.read(config);
  const bool is_text = std::holds_alternative<std::string>(now);
  for (std::size_t i = 0; i < condition.values.size(); ++i) {
    const std::string& value = condition.values[i];
    (text += i == 0 ? "" : ", ") += is_text ? config::quoted(value) : value;
  }
  return text + ", it is " + toml_text(now);
}

/// Gives the keys of strategy.preset where they are not given, at its place. One on the command line replaces
/// the deck's kind of strategy if that is no local SGD, as strategy.kind does there.
/// @returns a line that tells them
std::vector<std::string> take_preset(DeckValues& given) {
  const Given* const chosen = given.find("strategy.preset");
  if (chosen == nullptr) return {};
  const Origin origin = chosen->origin;
  const std::string name = std::get<std::string>(chosen->value);
  const bool typed = origin.from_override();
  const bool replaces_kind = typed && merged(given).local_sgd() == nullptr;
  auto& values = typed ? given.overrides : given.deck;
  std::map<std::string, Value> set;
  std::string stays;
  for (const auto& [path, value] : std::ranges::find(presets(), name, &Preset::name)->keys) {
    const bool in_deck = given.deck.contains(path) && !(replaces_kind && path == "strategy.kind");
    if (in_deck || given.overrides.contains(path))
      stays += cat(stays.empty() ? "; given: " : ", ", path, " = ", toml_text(given.find(path)->value));
    else
      set.emplace(path, value);
    if (typed ? set.contains(path) : !in_deck) values.insert_or_assign(path, Given{value, origin});
  }
  DeckValues of_source = given;
  if (!typed) of_source.overrides.clear();
  const Config config = merged(of_source);
  std::string text;
  for (const auto& [path, value] : set) {
    if (is_active(*find_key(path), config))
      text += cat(text.empty() ? "" : ", ", path, " = ", toml_text(value));
    else
      values.erase(path);  // the given kind has no such key
  }
  if (merged(given).local_sgd() == nullptr) return {};
  return {cat("preset       ", quoted(name), " sets ", text.empty() ? "nothing" : text, stays)};
}

/// Drops the deck's values that conflict with choices of the command line: keys of another kind only, and the
/// other one of two that exclude each other. Returns a line for each choice that did so.
std::vector<std::string> drop_what_overrides_replace(DeckValues& given) {
  std::vector<std::string> notes;
  const auto drop = [&](const std::vector<std::string>& paths, const Origin& origin) {
    if (paths.empty()) return;
    notes.push_back(note(paths, origin));
    for (const std::string& path : paths) given.deck.erase(path);
  };
  for (const auto& [path, value] : given.overrides) drop(replaced_by(path, given), value.origin);

  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> exclusive = {
      {{"train.batch_size", "train.global_batch_size"},
       {"train.global_batch_size", "train.batch_size"},
       {"data.validation.path", "data.validation.share"},
       {"data.validation.images", "data.validation.share"}}};
  for (const auto& [chosen, other] : exclusive) {
    const auto value = given.overrides.find(chosen);
    if (value == given.overrides.end() || given.overrides.contains(other)) continue;
    if (given.deck.contains(other)) drop({std::string(other)}, value->second.origin);
  }
  return notes;
}

/// Keys that the chosen kinds do not know, and required keys that are missing, become mistakes.
void check_presence(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  for (const Key& key : all_keys()) {
    const Condition& condition = key.condition;
    if (!condition.selector.empty() && given.is_unusable(condition.selector)) continue;
    const bool active = is_active(key, config);
    for (const auto* source : {&given.deck, &given.overrides}) {
      const auto value = source->find(key.path);
      if (active || value == source->end()) continue;
      mistakes.add(value->second.origin, key.path + needs_text(condition, config));
    }
    const bool missing =
        key.presence == Necessity::required && given.find(key.path) == nullptr &&
        key.field.read(config) == default_of(key);  // if not, the kind has a default of its own
    if (active && missing && !given.is_unusable(key.path)) {
      mistakes.add({}, cat(key.path, " is missing (", type_name(default_of(key)), "): ", key.help));
    }
  }
}

}  // namespace
}  // namespace config

namespace {

namespace fs = std::filesystem;

// Some hundred lines make a deck; this keeps a data file given by mistake from being parsed.
constexpr std::size_t max_deck_bytes = 1048576;

// The steps by which a worker may be ahead of the slowest one where the deck does not set
// server.max_staleness.
constexpr std::int64_t steps_ahead = 32;

/// Sets what follows from other keys.
void derive(const config::DeckValues& given, Config& config) {
  const auto is_given = [](const DataSourceConfig& source) {
    return !source.images.empty() || !source.path.empty() || source.samples > 0;
  };
  config.data.train.given = is_given(config.data.train);
  config.data.validation.given = is_given(config.data.validation);
  // An override may take the path away, and with it what belongs to it.
  if (!config.data.validation.given && given.find("data.validation.path") != nullptr) {
    const double share = config.data.validation.share;
    config.data.validation = {};
    config.data.validation.share = share;
  }
  config.data.pixel_scale_given = given.find("data.mean") != nullptr || given.find("data.std") != nullptr;
  if (config.model.has_embeddings()) {
    config.model.classes = 2;
    if (given.find("model.widths") == nullptr) config.model.widths = {400, 400, 400};
    if (given.find("model.activation") == nullptr) config.model.activation = Activation::relu;
  }
  config.data.table.labels_classes = config.model.has_classes();
  const DataKindKeys& kind = config.data.keys();
  if (kind.in_order && given.find("data.order") == nullptr) config.data.order = SampleOrder::file;
  // Photographs are mirrored as torchvision's references do it; digits and letters have a left and a right.
  if (kind.colours && given.find("data.flip") == nullptr) config.data.flip = 0.5;
  config.optimizer.decay = update_decay(config.optimizer);
  auto* server = std::get_if<ServerConfig>(&config.strategy);
  if (server != nullptr && server->mode != ServerMode::sync && given.find("server.max_staleness") == nullptr)
    server->max_staleness =
        std::max<std::int64_t>(1, steps_ahead / std::max<std::int64_t>(1, server->push_every));
  ReductionConfig& reduction = config.reduction;
  if (given.find("strategy.last_bucket_mb") == nullptr)
    reduction.last_bucket_mb = std::min(reduction.last_bucket_mb, reduction.bucket_mb);
}

/// Reads, overlays and checks a deck, without checking the resolved text.
LoadedDeck load(const DeckSource& source) {
  config::Mistakes mistakes(source.path);
  config::DeckValues given;
  auto parsed = config::parse_toml(source.text);
  if (const auto* syntax = std::get_if<config::SyntaxMistake>(&parsed)) {
    mistakes.add({syntax->position, {}}, syntax->text);
    config::collect_overrides(source.written, source.overrides, given, mistakes);
    mistakes.throw_if_any();
  }
  config::collect_deck(std::get<config::Table>(parsed), given, mistakes);
  config::collect_overrides(source.written, source.overrides, given, mistakes);

  LoadedDeck loaded;
  loaded.notes = config::take_preset(given);
  for (std::string& note : config::drop_what_overrides_replace(given))
    loaded.notes.push_back(std::move(note));
  for (const auto& [path, value] : given.overrides)
    if (value.value == config::Value(std::string()))
      loaded.notes.push_back(cat(path, " is empty on the command line: none"));
  loaded.config = config::merged(given);
  derive(given, loaded.config);
  config::check_presence(loaded.config, given, mistakes);
  for (auto* const check :
       {&config::check_run_rules, &config::check_model_rules, &config::check_data_rules,
        &config::check_image_rules, &config::check_train_rules, &config::check_strategy_rules})
    check(loaded.config, given, mistakes);
  mistakes.throw_if_any();

  for (std::size_t i = 0; i < loaded.config.model.layers.size(); ++i)
    loaded.config.model.layer_places.push_back(
        config::place_of(source.path, given.origin_of("model.layers", i)));
  const bool literal = source.saved || source.text.starts_with(config::mark_of_resolved);
  config::resolve_paths(source.path, literal, given, loaded.config, mistakes);
  mistakes.throw_if_any();
  loaded.config.resolved_text = config::resolved_text(loaded.config);
  for (const config::Key& key : config::all_keys())
    if (const config::Given* value = given.find(key.path); value != nullptr && !source.saved)
      loaded.places[key.path] = config::place_of(source.path, value->origin);
  return loaded;
}

/// Reads the resolved text back: checkpoints rely on it. @throws InternalError unless it gives `config` again
void check_resolved(const Config& config, const std::string& path) {
  Config again;
  try {
    again = load({.path = path, .text = config.resolved_text, .overrides = {}}).config;
  } catch (const UserError& error) {
    throw InternalError(cat("the resolved deck of ", path, " cannot be read: ", error.what()));
  }
  for (const config::Key& key : config::all_keys()) {
    const config::Value value = key.field.read(config);
    const config::Value read = key.field.read(again);
    require(value == read, "the resolved deck of ", path, " has ", key.path, " = ", config::toml_text(read),
            " instead of ", config::toml_text(value));
  }
}

}  // namespace

LoadedDeck load_deck(const DeckSource& source) {
  LoadedDeck loaded = load(source);
  check_resolved(loaded.config, source.path);
  return loaded;
}

std::string LoadedDeck::placed(const std::string& mistake) const {
  const auto place = places.find(mistake.substr(0, mistake.find_first_of(" :")));
  return place == places.end() ? mistake : cat(place->second, ": ", mistake);
}

std::string read_deck_file(const std::string& path, const std::string& what, const std::string& example) {
  const std::string remedy = cat("; give a ", what, "'s path, as ", example);
  const std::string failed = cat("cannot read the ", what, " ", path, ": ");
  std::error_code error;
  if (fs::is_directory(path, error)) throw UserError(failed + "it is a folder" + remedy);
  // The pipe of "<(command)" ends with its command.
  if (fs::is_fifo(path, error) && !path.starts_with("/dev/") && !path.starts_with("/proc/"))
    throw UserError(failed + "it is a named pipe" + remedy);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(failed + std::strerror(errno) + remedy);
  std::string text(max_deck_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw UserError(failed + std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > max_deck_bytes) {
    throw UserError(cat("the ", what, " ", path, " has more than ", max_deck_bytes, " bytes: is it a ", what,
                        "?", remedy));
  }
  return text;
}

Config read_saved_deck(const std::string& text) {
  auto parsed = config::parse_toml(text);
  if (const auto* mistake = std::get_if<config::SyntaxMistake>(&parsed)) {
    throw UserError(
        cat("the deck in the checkpoint cannot be read: line ", mistake->position.line, ": ", mistake->text));
  }
  config::Mistakes ignored("");
  config::DeckValues given;
  config::collect_deck(std::get<config::Table>(parsed), given, ignored);
  return config::merged(given);
}

std::string ResumeDifference::text() const {
  return cat(key, ": ", before, " in the checkpoint, ", now, " now");
}

std::string ResumeDifference::change() const {
  return cat(key, " ", before, " → ", now);
}

std::vector<ResumeDifference> differences_at_resume(const std::string& saved_deck,
                                                    const std::string& current_deck) {
  const Config saved = read_saved_deck(saved_deck);
  const Config current = read_saved_deck(current_deck);
  std::vector<ResumeDifference> differences;
  for (const config::Key& key : config::all_keys()) {
    // A selector precedes its keys: a changed kind has been reported when its keys are compared.
    const bool known = config::is_active(key, saved) && config::is_active(key, current);
    if (!known || key.on_resume == config::OnResume::of_start) continue;
    const config::Value before = key.field.read(saved);
    const config::Value now = key.field.read(current);
    if (before == now) continue;
    const auto text = [&](const config::Value& value) {
      const bool left_out = key.presence == config::Necessity::optional && value == config::default_of(key);
      return left_out ? "left out" : config::toml_text(value);
    };
    differences.push_back({key.path, text(before), text(now), key.on_resume});
  }
  return differences;
}

std::string changes_of(const std::vector<ResumeDifference>& differences) {
  std::string text;
  for (const ResumeDifference& each : differences) text += (text.empty() ? "" : ", ") + each.change();
  return text;
}

}  // namespace flotilla
