// SPDX-License-Identifier: Apache-2.0
#include "src/commands/inspect_arrays.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/commands/array_statistics.hpp"
#include "src/commands/inspect_table.hpp"
#include "src/config/values.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "src/data/data_file.hpp"
#include "src/files/folders.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t cached_bytes = std::int64_t{256} << 20;
constexpr std::int64_t most_last_channels = 4;
constexpr std::size_t most_told_groups = 64;

/// The facts shown about an array.
struct ArrayFacts {
  std::string name;
  ArrayForm form;
  bool channels_last = false;  ///< Guessed: (N,H,W,C) with at most 4 channels
  ArrayStatistics values;
  std::string problem;  ///< Why it cannot be read; empty: it can
};

ArrayFacts facts_of(const ArrayFile& file, const std::string& name) {
  ArrayFacts facts{.name = name, .form = {}, .channels_last = false, .values = {}, .problem = {}};
  try {
    const auto array = file.open(name);
    facts.form = array->form();
    const auto& extents = facts.form.extents;
    facts.channels_last =
        extents.size() == 4 && extents[3] <= most_last_channels && extents[1] > most_last_channels;
    ProgressLine progress(cat("reading ", name), facts.form.rows(), Amount::items);
    facts.values = statistics_of(*array, facts.channels_last, [&](std::int64_t row) { progress.at(row); });
  } catch (const UserError& error) {
    facts.problem = error.what();
  }
  return facts;
}

/// The moments of each group of numbers, or of all.
std::vector<Moments> told_moments(const ArrayStatistics& values) {
  const bool each = !values.groups.empty() && values.groups.size() <= most_told_groups;
  return each ? values.groups : std::vector<Moments>{values.all};
}

/// "[0.1, 0.25]" of means or deviations; of uint8 those of the value / 255. A deviation of 0 becomes 1.
std::string deck_values(const ArrayFacts& facts, bool deviation, bool scaled) {
  const double unit = facts.form.type.is_byte() && scaled ? 255.0 : 1.0;
  std::string text;
  for (const Moments& moments : told_moments(facts.values)) {
    const double spread = moments.deviation() / unit;
    const double value = deviation ? (spread > 0.0 ? spread : 1.0) : moments.mean / unit;
    text += fmt::format("{}{:.9g}", text.empty() ? "" : ", ", value);
  }
  return cat("[", text, "]");
}

void print_for_deck(std::ostream& out, const ArrayFacts& facts) {
  const std::string name = config::quoted(facts.name);
  out << "\n# " << config::printable(facts.name) << " as inputs"
      << (facts.form.type.is_byte() ? ": of value / 255" : "") << '\n'
      << "inputs = " << name << '\n';
  if (facts.channels_last) out << "channels_last = true\n";
  out << "input_mean = " << deck_values(facts, false, true) << '\n'
      << "input_std = " << deck_values(facts, true, true) << '\n';
  if (facts.form.extents.size() > 2) return;
  out << "# " << config::printable(facts.name) << " as targets\n"
      << "targets = " << name << '\n'
      << "target_mean = " << deck_values(facts, false, false) << '\n'
      << "target_std = " << deck_values(facts, true, false) << '\n';
}

std::string as_text(const std::string& title, const std::vector<ArrayFacts>& arrays) {
  std::ostringstream out;
  out << title << '\n';
  if (arrays.empty()) return out.str();
  std::vector<std::vector<std::string>> lines = {
      {"array", "shape", "type", "mean", "deviation", "min", "max", "not finite", "stored as"}};
  const auto number = [](double value) { return fmt::format("{:.6g}", value); };
  for (const ArrayFacts& facts : arrays) {
    if (!facts.problem.empty()) {
      lines.push_back({facts.name, "-", "-", "-", "-", "-", "-", "-", "unreadable"});
      continue;
    }
    const bool known = facts.values.all.count > 0;
    lines.push_back({facts.name, facts.form.shape_text(), facts.form.type.text(),
                     known ? number(facts.values.all.mean) : "-",
                     known ? number(facts.values.all.deviation()) : "-",
                     known ? number(facts.values.min) : "-", known ? number(facts.values.max) : "-",
                     cat(facts.values.non_finite), facts.form.storage});
  }
  print_columns(out, lines);
  out << "\n# For the table [data] of a deck\n";
  for (const ArrayFacts& facts : arrays)
    if (facts.problem.empty() && facts.values.all.count > 0) print_for_deck(out, facts);
  return out.str();
}

std::string as_json(const std::string& path, const std::string& format,
                    const std::vector<ArrayFacts>& arrays) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ArrayFacts& facts : arrays) {
    nlohmann::ordered_json row{{"name", facts.name}};
    if (!facts.problem.empty()) {
      row["problem"] = facts.problem;
    } else {
      std::vector<double> means;
      std::vector<double> deviations;
      for (const Moments& moments : told_moments(facts.values)) {
        means.push_back(moments.mean);
        deviations.push_back(moments.deviation());
      }
      row.update({{"shape", facts.form.extents},
                  {"type", facts.form.type.text()},
                  {"storage", facts.form.storage},
                  {"mean", means},
                  {"std", deviations},
                  {"min", facts.values.min},
                  {"max", facts.values.max},
                  {"non_finite", facts.values.non_finite}});
    }
    rows.push_back(row);
  }
  const nlohmann::ordered_json all{{"path", path}, {"format", format}, {"arrays", rows}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Describes a file or folder of data whose samples are not shown. Nothing if it is none, or may hold a
/// model.
std::optional<Inspection> inspect_other_data(const std::string& path, const InspectOptions& options) {
  const FileKind kind = kind_of_path(path);
  if (kind.format == FileFormat::folder && (is_there(path + "/checkpoints") || !checkpoints_in(path).empty()))
    return std::nullopt;
  if (kind.format == FileFormat::csv) return inspect_table(path, options);
  const bool may_be_model = kind.format == FileFormat::hdf5 && !kind.gzipped;
  if (may_be_model || !kind.advice.starts_with("data.kind")) return std::nullopt;
  const std::string format = described(kind);
  const std::string advice = advice_on(kind);
  const nlohmann::ordered_json json{{"path", path}, {"format", format}, {"advice", advice}};
  return Inspection{.text = options.json ? json.dump(2) + "\n" : cat(path, ": ", format, "; ", advice, "\n"),
                    .damage = {}};
}

}  // namespace

std::optional<Inspection> inspect_arrays(const std::string& path, const InspectOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const KnownArrays known = open_known_arrays(path, std::make_shared<ChunkCache>(cached_bytes));
  if (known.file == nullptr) return inspect_other_data(path, options);
  std::vector<ArrayFacts> arrays;
  for (const std::string& name : known.file->names()) arrays.push_back(facts_of(*known.file, name));
  const std::string title =
      cat(path, ": ", known.format, ", ", arrays.size(), arrays.size() == 1 ? " array" : " arrays");
  Inspection inspection{.text = options.json ? as_json(path, known.format, arrays) : as_text(title, arrays),
                        .damage = {}};
  for (const ArrayFacts& facts : arrays)
    if (!facts.problem.empty())
      inspection.damage += cat(inspection.damage.empty() ? "" : "; ", facts.problem);
  return inspection;
}

}  // namespace flotilla
