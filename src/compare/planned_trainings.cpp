// SPDX-License-Identifier: Apache-2.0
#include "src/compare/planned_trainings.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/read_value.hpp"
#include "src/config/values.hpp"

namespace flotilla {

namespace {

using Overrides = std::vector<std::string>;

/// What one training sets by itself, after all other overrides.
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

/// run.output of the last override that has one; else `otherwise`.
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

  /// Those of the deck without any run's overrides.
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

  /// Of an override of the command line, which is laid under what each training sets by itself.
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
      const bool whole =
          config.schedule.kind == ScheduleKind::cosine || config.schedule.kind == ScheduleKind::linear;
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
