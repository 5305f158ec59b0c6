// SPDX-License-Identifier: Apache-2.0
#include "src/commands/subcommand.hpp"

#include <CLI/CLI.hpp>

#include "kernels/error.hpp"

namespace flotilla {

// Each is described at the end of its source.
Subcommand train_command(), find_rate_command(), forecast_command(), compare_command(), evaluate_command(),
    predict_command(), inspect_command(), export_command(), pack_command(), watch_command(), keys_command(),
    report_command(), rescue_command(), bench_all_reduce_command(), bench_input_command(),
    bench_step_command(), make_criteo_command(), make_borehole_command();

namespace {

struct NoArguments {};

Subcommand group(std::string_view name, const char* help) {
  return SubcommandOf<NoArguments>{.name = name, .help = help};
}

}  // namespace

const std::vector<Subcommand>& subcommands() {
  static const std::vector<Subcommand> all = {
      train_command(),
      compare_command(),
      evaluate_command(),
      predict_command(),
      inspect_command(),
      export_command(),
      pack_command(),
      watch_command(),
      keys_command(),
      report_command(),
      rescue_command(),
      find_rate_command(),
      forecast_command(),
      group("bench", "Measure parts of Flotilla on this machine"),
      bench_all_reduce_command(),
      bench_input_command(),
      bench_step_command(),
      group("make-data", "Write synthetic data of which the best prediction is known"),
      make_criteo_command(),
      make_borehole_command(),
  };
  return all;
}

bool is_override(const std::string& text) {
  const auto equals = text.find('=');
  return equals != std::string::npos && text.find('/') > equals;
}

void Positionals::add_file(CLI::App& command, const char* name, const char* help, bool required) {
  command.add_option(name, first_.emplace_back(), help)->required(required);
}

void Positionals::add_overrides(CLI::App& command, const std::string& help) {
  command.add_option("OVERRIDES", others_,
                     help +
                         "key.path=value, laid over the deck: train.epochs=3 model.widths=64,64 (for each "
                         "key the last one holds)");
}

void Positionals::read(const std::string& hint_of_command) {
  hint = hint_of_command;
  std::vector<std::string> written(first_.begin(), first_.end());
  written.insert(written.end(), others_.begin(), others_.end());
  for (const std::string& text : written)
    if (!text.empty()) (is_override(text) ? overrides : files).push_back(text);
}

std::string Positionals::take_file(const char* name) {
  if (files.empty()) throw UserError(cat(name, " is missing; ", hint));
  const std::string file = files.front();
  files.erase(files.begin());
  return file;
}

std::string Positionals::take_deck(bool required) {
  if (files.size() > 1)
    throw UserError(cat("one deck is used at a time, got ", files[0], " and ", files[1],
                        "; an override is written key.path=value"));
  return files.empty() && !required ? std::string() : take_file("DECK");
}

}  // namespace flotilla
