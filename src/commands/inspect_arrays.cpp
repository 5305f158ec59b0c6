// SPDX-License-Identifier: Apache-2.0
#include "src/commands/inspect_arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
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
constexpr std::int64_t max_last_channels = 4;
constexpr std::size_t max_told_groups = 64;

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
        extents.size() == 4 && extents[3] <= max_last_channels && extents[1] > max_last_channels;
    ProgressLine progress(cat("reading ", name), facts.form.rows(), Amount::items);
    facts.values = statistics_of(*array, facts.channels_last, [&](std::int64_t row) { progress.at(row); });
  } catch (const UserError& error) {
    facts.problem = error.what();
  }
  return facts;
}

/// The moments of each group of numbers, or of all.
std::vector<Moments> told_moments(const ArrayStatistics& values) {
  const bool each = !values.groups.empty() && values.groups.size() <= max_told_groups;
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

/// The last part of an array's name in small letters: "label" of "train/Label".
std::string small_name(const ArrayFacts& facts) {
  return config::lower_case(facts.name.substr(facts.name.rfind('/') + 1));
}

/// Whether an array seems to hold what is predicted: by its name, else where it has one number a sample.
bool seems_target(const ArrayFacts& facts) {
  static constexpr std::array<std::string_view, 5> targets = {"target", "label", "y", "class", "output"};
  static constexpr std::array<std::string_view, 6> inputs = {"input", "image",   "x",
                                                             "data",  "feature", "sample"};
  const std::string name = small_name(facts);
  const auto begins = [&](std::string_view word) {
    return name.starts_with(word) && (word.size() > 1 || name.size() == 1 || name[1] == '_');
  };
  if (std::ranges::any_of(targets, begins)) return true;
  return std::ranges::none_of(inputs, begins) && facts.form.row_values() == 1;
}

bool is_known(const ArrayFacts& facts) {
  return facts.problem.empty() && facts.values.all.count > 0;
}

/// The lines of an array in [data], in the one role that it seems to have.
void print_for_deck(std::ostream& out, const ArrayFacts& facts) {
  const bool target = seems_target(facts);
  const char* const role = target ? "target" : "input";
  out << "\n# " << config::printable(facts.name) << " as " << role << "s"
      << (facts.form.type.is_byte() && !target ? ": of value / 255" : "") << '\n'
      << role << "s = " << config::quoted(facts.name) << '\n';
  if (facts.channels_last && !target) out << "channels_last = true\n";
  if (target && facts.form.type.is_integer()) return;  // labels
  out << role << "_mean = " << deck_values(facts, false, !target) << '\n'
      << role << "_std = " << deck_values(facts, true, !target) << '\n';
}

/// A deck that trains on the arrays: the inputs with the most samples, and targets of as many.
/// @throws UserError where no two arrays belong together
std::string deck_of(const std::string& path, const std::string& kind, const std::vector<ArrayFacts>& arrays) {
  const ArrayFacts* inputs = nullptr;
  const ArrayFacts* targets = nullptr;
  for (const ArrayFacts& facts : arrays)
    if (is_known(facts) && !seems_target(facts) &&
        (inputs == nullptr || facts.form.rows() > inputs->form.rows()))
      inputs = &facts;
  for (const ArrayFacts& facts : arrays)
    if (inputs != nullptr && targets == nullptr && facts.problem.empty() && seems_target(facts) &&
        facts.form.rows() == inputs->form.rows())
      targets = &facts;
  if (targets == nullptr)
    throw UserError(cat(path,
                        ": no array of inputs and one of labels or numbers to be predicted can be told by "
                        "their names and shapes: flotilla inspect ",
                        path, " lists the arrays; name two in data.inputs and data.targets"));
  const bool labels =
      targets->form.row_values() == 1 && (targets->form.type.is_integer() || !targets->form.words.empty());
  const bool pixels = inputs->form.type.is_byte() && inputs->form.extents.size() > 2;
  return cat("[data]\nkind = \"", kind, "\"\ninputs = ", config::quoted(inputs->name),
             "\ntargets = ", config::quoted(targets->name), "  # a guess, as inputs is\n",
             inputs->channels_last ? "channels_last = true\n" : "",
             rest_of_deck(path, inputs->form.rows(), labels ? 0 : targets->form.row_values(), !pixels));
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
    if (is_known(facts)) print_for_deck(out, facts);
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

/// @param what the file is, and what reads it
[[noreturn]] void refuse_deck(const std::string& path, const std::string& what) {
  throw UserError(cat(path, ": decks are printed for CSV, HDF5 and .npz files, and this is ", what,
                      "; begin with the deck of inputs/ or docs/guide.md that is nearest"));
}

/// Describes a file or folder of data whose samples are not shown. Nothing if it is none, or may hold a
/// model.
std::optional<Inspection> inspect_other_data(const std::string& path, const InspectOptions& options) {
  const FileKind kind = kind_of_path(path);
  if (kind.format == FileFormat::folder && (is_there(path + "/checkpoints") || !checkpoints_in(path).empty()))
    return std::nullopt;
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool empty_table = kind.format == FileFormat::empty && (ending == ".csv" || ending == ".tsv");
  if (kind.format == FileFormat::csv || empty_table) return inspect_table(path, options);
  const bool may_be_model = kind.format == FileFormat::hdf5 && !kind.gzipped;
  if (may_be_model || !kind.advice.starts_with("data.kind")) return std::nullopt;
  const std::string format = described(kind);
  const std::string advice = advice_on(kind);
  if (options.deck && !options.json) refuse_deck(path, cat(format, ": ", advice));
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
  const bool joined = known.format == "HDF5" || known.format == "NumPy .npz";
  if (options.deck && !options.json && !joined)
    refuse_deck(path, cat(known.format, " data of one role or of one file each"));
  Inspection inspection{.text = options.json ? as_json(path, known.format, arrays)
                                : options.deck
                                    ? deck_of(path, known.format == "HDF5" ? "hdf5" : "numpy", arrays)
                                    : as_text(title, arrays),
                        .damage = {}};
  for (const ArrayFacts& facts : arrays)
    if (!facts.problem.empty())
      inspection.damage += cat(inspection.damage.empty() ? "" : "; ", facts.problem);
  return inspection;
}

}  // namespace flotilla
