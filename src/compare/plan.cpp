// SPDX-License-Identifier: Apache-2.0
#include "src/compare/plan.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "kernels/error.hpp"
#include "src/config/collect_keys.hpp"
#include "src/config/deck_tree.hpp"
#include "src/config/keys.hpp"
#include "src/config/mistakes.hpp"
#include "src/config/suggestions.hpp"
#include "src/config/values.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;
using config::Member;
using config::Mistakes;
using config::Node;

constexpr std::int64_t max_seeds = 1000;

/// "local SGD, 8" → "local_sgd_8"
std::string folder_name(const std::string& name) {
  std::string folder;
  for (const unsigned char letter : name) {
    if (std::isalnum(letter) != 0) {
      folder += static_cast<char>(std::tolower(letter));
    } else if (!folder.empty() && folder.back() != '_') {
      folder += '_';
    }
  }
  while (folder.ends_with('_')) folder.pop_back();
  return folder;
}

/// Reads a plan's tree into a Plan.
class PlanParser {
 public:
  PlanParser(Plan& plan, Mistakes& mistakes) : plan_(plan), mistakes_(mistakes) {}

  void read(const config::Table& table) {
    const std::map<std::string, std::function<void(const Node&)>> keys = {
        {"deck", [this](const Node& node) { take(node, "deck", plan_.deck); }},
        {"output", [this](const Node& node) { take(node, "output", plan_.output); }},
        {"seeds", [this](const Node& node) { read_seeds(node); }},
        {"equal", [this](const Node& node) { read_equal(node); }},
        {"seconds", [this](const Node& node) { read_seconds(node); }},
        {"target", [this](const Node& node) { read_target(node); }},
        {"set", [this](const Node& node) { plan_.set = read_set(node, false); }},
        {"run", [this](const Node& node) { read_runs(node); }},
    };
    read_keys(table, keys, "");
    if (!has(table, "deck")) add({}, "deck is missing: deck = \"../mnist_mlp.toml\", relative to the plan");
    if (!has(table, "run"))
      add({}, "it has no runs: [[run]] with name = \"…\" and set = [\"key.path=value\", …]");
    if (has(table, "equal") && plan_.equal == Equal::time && !has(table, "seconds"))
      add({}, "seconds is missing: with equal = \"time\" each run trains for so many");
    if (has(table, "seconds") && plan_.equal == Equal::samples)
      add(seconds_at_, "seconds needs equal = \"time\"; with \"samples\" the deck says how long a run is");
  }

 private:
  using Keys = std::map<std::string, std::function<void(const Node&)>>;

  void add(const config::DeckPosition& position, const std::string& text) {
    mistakes_.add({position, {}}, text);
  }

  static bool has(const config::Table& table, std::string_view name) {
    return std::ranges::find(table, name, &Member::name) != table.end();
  }

  void read_keys(const config::Table& table, const Keys& keys, const std::string& of) {
    for (const Member& member : table) {
      if (const auto known = keys.find(member.name); known != keys.end()) {
        known->second(member.node);
        continue;
      }
      std::string names;
      std::string meant;
      for (const auto& [name, read] : keys) {
        names += (names.empty() ? "" : ", ") + name;
        if (config::edit_distance(member.name, name) <= 2) meant = name;
      }
      add(member.position, cat(config::printable(member.name), " is no key of a ", of.empty() ? "plan" : of,
                               meant.empty() ? cat("; it has ", names) : cat("; did you mean ", meant, "?")));
    }
  }

  /// A text that is not empty.
  void take(const Node& node, const char* name, std::string& to) {
    const auto* text = std::get_if<std::string>(&node.value);
    if (text == nullptr)
      add(node.position, cat(name, " must be a string, got ", node.type()));
    else if (text->empty())
      add(node.position, cat(name, " must not be empty"));
    else
      to = *text;
  }

  void read_seeds(const Node& node) {
    const auto* number = std::get_if<std::int64_t>(&node.value);
    if (number == nullptr || *number < 1 || *number > max_seeds)
      add(node.position, cat("seeds must be an integer from 1 to ", max_seeds));
    else
      plan_.seeds = *number;
  }

  void read_equal(const Node& node) {
    const auto* text = std::get_if<std::string>(&node.value);
    if (text == nullptr || (*text != "samples" && *text != "time"))
      add(node.position, "equal must be \"samples\" or \"time\"");
    else
      plan_.equal = *text == "time" ? Equal::time : Equal::samples;
  }

  std::optional<double> number_of(const Node& node) {
    if (const auto* number = std::get_if<double>(&node.value)) return *number;
    if (const auto* integer = std::get_if<std::int64_t>(&node.value)) return static_cast<double>(*integer);
    return std::nullopt;
  }

  void read_seconds(const Node& node) {
    seconds_at_ = node.position;
    const std::optional<double> number = number_of(node);
    if (!number || !(*number > 0.0))
      add(node.position, "seconds must be a positive number");
    else
      plan_.seconds = *number;
  }

  void read_target(const Node& node) {
    plan_.target = number_of(node);
    if (!plan_.target || !(*plan_.target > 0.0) || *plan_.target > 1.0)
      add(node.position, "target must be an accuracy, AUC or R² above 0 and at most 1");
  }

  std::vector<config::PlacedOverride> read_set(const Node& node, bool one_run) {
    std::vector<config::PlacedOverride> set;
    const auto* items = std::get_if<std::vector<Node>>(&node.value);
    if (items == nullptr) {
      add(node.position, cat("set must be an array of \"key.path=value\", got ", node.type()));
      return set;
    }
    for (const Node& item : *items) {
      const auto* text = std::get_if<std::string>(&item.value);
      if (text == nullptr) {
        add(item.position, cat("set must be an array of \"key.path=value\", got ", item.type(), " in it"));
        continue;
      }
      const std::string path = text->substr(0, text->find('='));
      if (const std::string refused = refusal(path, one_run); !refused.empty())
        add(item.position, cat(path, ": ", refused));
      else
        set.push_back({*text, config::place_of(plan_.path, {item.position, {}})});
    }
    return set;
  }

  void read_runs(const Node& node) {
    const auto* items = std::get_if<std::vector<Node>>(&node.value);
    if (items == nullptr || items->empty() || !std::ranges::all_of(*items, [](const Node& item) {
          return std::holds_alternative<config::Table>(item.value);
        })) {
      add(node.position, "a run is written [[run]], with name and set below it");
      return;
    }
    for (const Node& item : *items) read_run(std::get<config::Table>(item.value), item.position);
  }

  void read_run(const config::Table& table, const config::DeckPosition& position) {
    PlannedRun run;
    config::DeckPosition name_at = position;
    const Keys keys = {{"name",
                        [&](const Node& node) {
                          name_at = node.position;
                          take(node, "name", run.name);
                        }},
                       {"set", [&](const Node& node) { run.set = read_set(node, true); }}};
    read_keys(table, keys, "run");
    if (!has(table, "name")) add(position, "a run has no name");
    if (run.name.empty()) return;
    run.folder = folder_name(run.name);
    if (run.folder.empty()) add(name_at, "name needs a letter or digit of ASCII: it names the run's folder");
    const auto other = std::ranges::find_if(plan_.runs, [&](const PlannedRun& each) {
      return each.name == run.name || (each.folder == run.folder && !run.folder.empty());
    });
    if (other != plan_.runs.end() && other->name == run.name)
      add(name_at, cat("another run is named ", config::quoted(run.name), " too; give each its own name"));
    else if (other != plan_.runs.end())
      add(name_at, cat(config::quoted(run.name), " and ", config::quoted(other->name), " name one folder, ",
                       run.folder, "; let letters or digits differ"));
    plan_.runs.push_back(std::move(run));
  }

  Plan& plan_;
  Mistakes& mistakes_;
  config::DeckPosition seconds_at_;
};

}  // namespace

std::string refusal(const std::string& path, bool one_run) {
  if (path == "run.output") return "the plan's output says where its runs go";
  if (path == "run.resume" || path == "run.resume_with")
    return "a comparison resumes by itself what it has begun";
  if (!one_run) return {};
  if (path == "run.seed") return "all runs train with the same seeds: set it for all runs, beside deck";
  if (path == "train.epochs" || path == "train.steps" || path == "train.seconds" ||
      path == "train.patience" || path == "train.target")
    return "the plan's equal says when a run ends: set it for all runs, beside deck";
  const bool data = path.starts_with("data.train.") || path.starts_with("data.validation.");
  if (data || path == "data.kind" || path == "data.shape")
    return "all runs train on the same data: set it for all runs, beside deck";
  const config::Key* key = config::find_key(path);
  const bool of_model = path.starts_with("model.") && !path.starts_with("model.batch_norm");
  if (path == "model.initial_weights" ||
      (of_model && key != nullptr && key->on_resume == config::OnResume::must_match))
    return "all runs begin with the same model: set it for all runs, beside deck";
  return {};
}

PlanReading read_plan(const std::string& path, const std::string& text) {
  PlanReading reading;
  Plan& plan = reading.plan;
  plan.path = path;
  // A deck's path, in which $$ is a $.
  plan.output = "runs/";
  for (const char letter : fs::path(path).stem().string())
    plan.output += letter == '$' ? "$$" : std::string(1, letter);
  Mistakes mistakes(path);
  const auto parsed = config::parse_toml(text);
  if (const auto* syntax = std::get_if<config::SyntaxMistake>(&parsed))
    mistakes.add({syntax->position, {}}, syntax->text);
  else
    PlanParser(plan, mistakes).read(std::get<config::Table>(parsed));
  if (!plan.deck.empty() && fs::path(plan.deck).is_relative())
    plan.deck = (fs::path(path).parent_path() / plan.deck).lexically_normal().string();
  reading.mistakes = mistakes.lines();
  return reading;
}

namespace {

using Overrides = std::vector<std::string>;

/// The overrides of one training, after all others.
Overrides own_overrides(const Plan& plan, const std::string& output, std::size_t run, std::int64_t seed) {
  Overrides own = {
      cat("run.seed=", seed),
      cat("run.output=", config::quoted(cat(output, "/", plan.runs[run].folder, "/seed-", seed))),
      "run.resume=auto"};
  if (plan.equal == Equal::time)
    for (const std::string& each : {cat("train.seconds=", config::toml_text(plan.seconds)),
                                    std::string("train.epochs=0"), std::string("train.steps=0")})
      own.push_back(each);
  return own;
}

/// run.output of the last override that has one; if there is none, `otherwise`.
std::string overridden_output(const Overrides& overrides, const std::string& otherwise) {
  const std::string key = "run.output=";
  std::string value = otherwise;
  for (const std::string& text : overrides)
    if (text.starts_with(key))
      if (const auto given = config::value_from_text(text.substr(key.size()), config::Value(std::string())))
        value = std::get<std::string>(*given);
  return value;
}

class Trainings {
 public:
  Trainings(const PlanReading& reading, const std::string& deck_text, const Overrides& overrides)
      : plan_(reading.plan), deck_text_(deck_text), overrides_(overrides), lines_(reading.mistakes) {}

  std::vector<PlannedTraining> make(const std::function<std::int64_t(const Config&)>& global_batch_of) {
    for (const std::string& text : overrides_) add_refusal(text);
    if (plan_.deck.empty() || deck_text_.empty()) refuse();
    const Overrides of_all = mistakes_of_all();
    std::vector<std::optional<Config>> configs;
    for (std::size_t run = 0; run < plan_.runs.size(); ++run) configs.push_back(check(run, of_all));
    const std::vector<std::int64_t> batches = global_batches(configs, global_batch_of);
    refuse();
    std::vector<PlannedTraining> trainings;
    const std::string output = overridden_output(overrides_, plan_.output);
    for (std::int64_t i = 0; i < plan_.seeds; ++i) {
      for (std::size_t run = 0; run < plan_.runs.size(); ++run) {
        const std::int64_t seed = configs[run]->run.seed + i;
        Overrides own = own_overrides(plan_, output, run, seed);
        const std::int64_t steps = configs[0]->train.steps;
        if (plan_.equal == Equal::samples && steps > 0 && batches[run] != batches[0])
          own.push_back(cat("train.steps=", (steps * batches[0] + batches[run] - 1) / batches[run]));
        trainings.push_back({.run = run, .seed = seed, .deck = load(plan_.runs[run].set, own)});
      }
    }
    return trainings;
  }

 private:
  LoadedDeck load(const std::vector<config::PlacedOverride>& set, const Overrides& own) const {
    DeckSource source{.path = plan_.deck, .text = deck_text_, .overrides = overrides_, .written = plan_.set};
    source.written.insert(source.written.end(), set.begin(), set.end());
    source.overrides.insert(source.overrides.end(), own.begin(), own.end());
    return load_deck(source);
  }

  /// The mistakes in the deck without any run's overrides.
  Overrides mistakes_of_all() const {
    try {
      load({}, {});
    } catch (const config::MistakesError& error) {
      return error.lines;
    }
    return {};
  }

  void add(const std::string& line) {
    if (std::ranges::find(lines_, line) == lines_.end()) lines_.push_back(line);
  }

  void add_of_run(std::size_t run, const std::string& text) {
    add(cat(plan_.path, ": run ", config::quoted(plan_.runs[run].name), ": ", text));
  }

  /// Refuses an override of the command line, which is laid under what each training sets by itself.
  void add_refusal(const std::string& text) {
    const std::string path = text.substr(0, text.find('='));
    const std::string refused = path == "run.output" ? "" : refusal(path, false);
    if (!refused.empty()) add(cat(config::place_of(plan_.path, {{}, text}), ": ", refused));
  }

  /// Keys that would end a run at another time than the plan's `equal` says.
  void add_other_ends(std::size_t run, const Config& config) {
    const bool timed = plan_.equal == Equal::time;
    const std::string why =
        timed ? " is set, and equal = \"time\" says that each run trains for the plan's "
                "seconds; leave it out"
              : " may end it early, and equal = \"samples\" says that all runs see as many; "
                "leave it out";
    for (const auto& [key, value] :
         {std::pair("train.patience", static_cast<double>(config.train.patience)),
          std::pair("train.target", config.train.target), std::pair("train.seconds", config.train.seconds)})
      if (value > 0.0) add_of_run(run, key + why);
  }

  /// @returns nothing where the run has mistakes
  std::optional<Config> check(std::size_t run, const Overrides& of_all) {
    try {
      const Config config = load(plan_.runs[run].set, {}).config;
      const bool whole = config.schedule.kind == ScheduleKind::cosine ||
                         config.schedule.kind == ScheduleKind::linear ||
                         config.schedule.kind == ScheduleKind::one_cycle;
      if (plan_.equal == Equal::time && whole)
        add_of_run(run, cat("schedule.kind = ", config::quoted(word(config.schedule.kind)),
                            " decays over a whole run, whose length equal = \"time\" leaves open; use "
                            "\"constant\" or \"piecewise\", or equal = \"samples\""));
      add_other_ends(run, config);
      return config;
    } catch (const config::MistakesError& error) {
      for (const std::string& line : error.lines) {
        const bool placed = line.starts_with(plan_.path + ":");
        if (placed || std::ranges::find(of_all, line) != of_all.end())
          add(line);
        else
          add(cat(line, " (run ", config::quoted(plan_.runs[run].name), ")"));
      }
    } catch (const UserError& error) {
      add_of_run(run, error.what());
    }
    return std::nullopt;
  }

  /// Samples of a step over all workers, by run.
  std::vector<std::int64_t> global_batches(
      const std::vector<std::optional<Config>>& configs,
      const std::function<std::int64_t(const Config&)>& global_batch_of) {
    std::vector<std::int64_t> batches(configs.size(), 1);
    for (std::size_t run = 0; run < configs.size(); ++run) {
      if (!configs[run]) continue;
      try {
        batches[run] = global_batch_of(*configs[run]);
      } catch (const UserError& error) {
        add_of_run(run, error.what());
      }
    }
    return batches;
  }

  void refuse() const {
    if (!lines_.empty()) throw config::MistakesError("plan", lines_);
  }

  const Plan& plan_;
  const std::string& deck_text_;
  const Overrides& overrides_;
  Overrides lines_;
};

}  // namespace

std::vector<PlannedTraining> planned_trainings(
    const PlanReading& reading, const std::string& deck_text, const std::vector<std::string>& overrides,
    const std::function<std::int64_t(const Config& config)>& global_batch_of) {
  return Trainings(reading, deck_text, overrides).make(global_batch_of);
}

}  // namespace flotilla
