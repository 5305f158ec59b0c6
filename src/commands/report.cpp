// SPDX-License-Identifier: Apache-2.0
#include "src/commands/report.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/commands/subcommand.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/folders.hpp"
#include "src/observe/print.hpp"
#include "src/report/charts.hpp"
#include "src/report/groups.hpp"
#include "src/report/metrics_reader.hpp"
#include "src/report/page_data.hpp"
#include "src/report/read_run.hpp"

namespace flotilla {

namespace {

std::string page_path(const ReportArguments& given) {
  if (!given.output.empty()) return given.output;
  return given.runs.size() == 1 ? given.runs.front() + "/report.html" : "report.html";
}

void check_is_no_input(const std::string& output, const ReportArguments& given) {
  std::vector<std::string> inputs;
  for (const std::string& run : given.runs)
    for (const char* input : {"/metrics.jsonl", "/deck.toml", "/failure.json", "/evaluation.json"})
      inputs.push_back(run + input);
  check_output_file(output, inputs);
}

/// Names of runs as parts of files' names: "a/b" becomes "a-b", and a second one "a-b-2".
std::vector<std::string> file_names_of(const std::vector<report::RunRecord>& runs) {
  std::vector<std::string> names;
  for (const report::RunRecord& run : runs) {
    std::string name = run.name;
    std::ranges::replace(name, '/', '-');
    std::string unique = name;
    for (int i = 2; std::ranges::find(names, unique) != names.end(); ++i) unique = cat(name, "-", i);
    names.push_back(unique);
  }
  return names;
}

/// The runs among several folders that have reported a step: `runs/*` names other folders too.
std::vector<report::RunRecord> read_given(const std::vector<std::string>& folders,
                                          const std::function<void(const std::string&)>& warn) {
  if (folders.size() == 1) return report::read_runs(folders);
  std::vector<std::string> left;
  for (const std::string& folder : folders) {
    try {
      report::check_has_step(folder);
      left.push_back(folder);
    } catch (const UserError& error) {
      warn(cat(error.what(), "; it is left out"));
    }
  }
  if (left.empty()) throw UserError("none of the folders is a run that has reported a step: check the paths");
  return report::read_runs(left);
}

}  // namespace

std::string make_report(const ReportArguments& given, const std::function<void(const std::string&)>& warn) {
  if (given.runs.size() == 1) report::check_is_run(given.runs.front());
  const std::string path = page_path(given);
  check_is_no_input(path, given);
  const std::vector<report::RunRecord> runs = read_given(given.runs, warn);
  for (const report::RunRecord& run : runs) std::ranges::for_each(run.warnings, warn);
  const std::vector<std::string> names = file_names_of(runs);
  std::string text;
  if (!given.svg.empty()) {
    make_output_folder(given.svg, "--svg");
    const std::vector<report::RunRecord> shown = report::folded(runs);
    const auto pictures = report::pictures_of(shown, file_names_of(shown));
    for (const report::Picture& picture : pictures)
      write_text_file_atomically(cat(given.svg, "/", picture.name, ".svg"), picture.svg);
    text += cat("wrote ", pictures.size(), " pictures to ", given.svg, "\n");
  }
  if (!given.csv.empty()) {
    make_output_folder(given.csv, "--csv");
    for (std::size_t i = 0; i < runs.size(); ++i)
      for (const char* event : {"step", "validation"}) {
        const std::string table = cat(given.csv, "/", names[i], "-", event, "s.csv");
        const std::int64_t rows = report::write_csv(runs[i].folder + "/metrics.jsonl", event, table);
        if (rows > 0) text += cat("wrote ", rows, rows == 1 ? " row to " : " rows to ", table, "\n");
      }
  }
  write_text_file_atomically(path, report::page_of(runs));
  return cat(text, "wrote ", path);
}

Subcommand report_command() {
  return SubcommandOf<ReportArguments>{
      .name = "report",
      .help = "Write a page with the curves and figures of runs",
      .add_options =
          [](CLI::App& command, ReportArguments& arguments, Positionals& /*positionals*/) {
            command.add_option("RUN", arguments.runs, "Folders of runs, also of running ones")->required();
            command.add_option(
                "--output", arguments.output,
                "The page (RUN/report.html; of several runs report.html in the current folder)");
            command.add_option("--svg", arguments.svg, "Folder for each chart as a picture");
            command.add_option("--csv", arguments.csv,
                               "Folder for the steps and validations of each run as tables");
          },
      .run_alone = [](const ReportArguments& arguments) -> int {
        print_line(make_report(arguments, print_warning));
        return exit_done;
      },
  };
}

}  // namespace flotilla
