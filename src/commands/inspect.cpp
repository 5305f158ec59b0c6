// SPDX-License-Identifier: Apache-2.0
#include "src/commands/inspect.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/file_index.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/commands/inspect_arrays.hpp"
#include "src/commands/subcommand.hpp"
#include "src/config/values.hpp"
#include "src/files/checksum.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

std::string value_text(std::optional<double> value) {
  std::ostringstream text;
  if (value)
    text << std::setprecision(5) << *value;
  else
    text << "-";
  return text.str();
}

nlohmann::json json_of(std::optional<double> value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

/// Statistics of values for `flotilla inspect`: of the finite ones, and the number of the others.
class ValueStatistics {
 public:
  void add(std::span<const float> values);
  nlohmann::json as_json() const;  ///< {"mean": …, "rms": …, "min": …, "max": …, "non_finite": …}
  std::vector<std::string> words() const;  ///< Mean, rms, min, max as columns of a table; "-": none
  static std::vector<std::string> headings();

 private:
  /// `value`; empty where there is no finite value.
  std::optional<double> over_finite(double value) const;
  std::optional<double> mean() const;
  std::optional<double> rms() const;

  std::int64_t finite_ = 0;
  std::int64_t non_finite_ = 0;
  double sum_ = 0.0;
  double sum_of_squares_ = 0.0;
  float min_ = std::numeric_limits<float>::infinity();
  float max_ = -std::numeric_limits<float>::infinity();
};

void ValueStatistics::add(std::span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++non_finite_;
      continue;
    }
    ++finite_;
    sum_ += value;
    sum_of_squares_ += static_cast<double>(value) * value;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }
}

std::optional<double> ValueStatistics::over_finite(double value) const {
  return finite_ > 0 ? std::optional(value) : std::nullopt;
}

std::optional<double> ValueStatistics::mean() const {
  return over_finite(sum_ / static_cast<double>(finite_));
}

std::optional<double> ValueStatistics::rms() const {
  return over_finite(std::sqrt(sum_of_squares_ / static_cast<double>(finite_)));
}

nlohmann::json ValueStatistics::as_json() const {
  return {{"mean", json_of(mean())},
          {"rms", json_of(rms())},
          {"min", json_of(over_finite(min_))},
          {"max", json_of(over_finite(max_))},
          {"non_finite", non_finite_}};
}

std::vector<std::string> ValueStatistics::words() const {
  return {value_text(mean()), value_text(rms()), value_text(over_finite(min_)), value_text(over_finite(max_)),
          std::to_string(non_finite_)};
}

std::vector<std::string> ValueStatistics::headings() {
  return {"mean", "rms", "min", "max", "non-finite"};
}

/// A table of rows, over all files that hold rows of it.
struct TableSummary {
  RowTable table;
  ValueStatistics values;  ///< Statistics of the rows, without the optimizer's state
};

TableSummary& summary_of(std::vector<TableSummary>& summaries, const RowTable& table) {
  const auto same = [&](const TableSummary& summary) {
    return summary.table.name == table.name && summary.table.width == table.width;
  };
  const auto known = std::ranges::find_if(summaries, same);
  if (known != summaries.end()) return *known;
  summaries.push_back(
      {.table = {.name = table.name, .width = table.width, .slots = table.slots}, .values = {}});
  return summaries.back();
}

/// Runs `work`; a UserError becomes a sentence of `damage`.
template <class Work>
void attempt(std::vector<std::string>& damage, Work work) {
  try {
    work();
  } catch (const UserError& error) {
    damage.emplace_back(error.what());
  }
}

/// The tables that a file and the servers' parts that it names hold. Missing or damaged files are left out,
/// with a message in `damage`.
std::vector<TableSummary> describe_tables(const FileIndex& index, std::vector<std::string>& damage) {
  std::vector<TableSummary> summaries;
  const auto describe = [&](RowFileReader& reader) {
    for (std::size_t i = 0; i < reader.tables().size(); ++i)
      attempt(damage, [&] {
        TableSummary& summary = summary_of(summaries, reader.tables()[i]);
        for (RowPiece piece = reader.next(i); !piece.keys.empty(); piece = reader.next(i)) {
          summary.table.rows += static_cast<std::int64_t>(piece.keys.size());
          summary.values.add(piece.values);
        }
      });
  };
  const auto of_rows = [](const StoredTensor& tensor) { return is_of_rows(tensor.path); };
  attempt(damage, [&] {
    if (std::ranges::none_of(index.tensors, of_rows)) return;
    RowFileReader reader(index.path);
    describe(reader);
  });
  for (const CheckpointPart& part : index.state.server_parts)
    attempt(damage, [&] { describe(*open_server_part(index.path, part)); });
  return summaries;
}

/// The facts shown about a tensor.
struct Row {
  const StoredTensor* tensor = nullptr;
  ValueStatistics values;
  std::string checksum;  ///< "ok", "damaged", "none" or "unreadable"
  std::string damage;    ///< The sentence that explains the last word
};

/// The facts shown about a file.
struct Contents {
  const FileIndex& index;
  std::vector<Row> rows{};
  std::vector<TableSummary> tables{};
  std::vector<std::string> table_damage{};
  std::string damage{};
};

Row describe_values(ValueReader& reader, const StoredTensor& tensor) {
  Row row;
  row.tensor = &tensor;
  try {
    if (!tensor.problem.empty()) throw UserError(cat("/", tensor.path, " ", tensor.problem));
    Checksum sum;
    reader.pieces(tensor, [&](std::span<const float> values) {
      sum.add(std::as_bytes(values));
      row.values.add(values);
    });
    row.checksum = !tensor.checksum ? "none" : *tensor.checksum == sum.value() ? "ok" : "damaged";
    if (row.checksum == "damaged")
      row.damage = cat("the values of /", tensor.path, " differ from its checksum");
  } catch (const UserError& error) {
    row.checksum = "unreadable";
    row.damage = error.what();
  }
  return row;
}

/// The damage of a file and of the parts that its checkpoint names; those of servers were read for their
/// tables.
std::string damage_of(const Contents& contents) {
  const FileIndex& index = contents.index;
  std::string damage;
  const auto mention = [&](const std::string& what) {
    if (!what.empty()) damage += (damage.empty() ? "" : "; ") + what;
  };
  for (const std::string& problem : index.problems) mention(problem);
  for (const Row& row : contents.rows) mention(row.damage);
  for (const std::string& text : contents.table_damage) mention(text);
  if (damage.empty()) mention(index_problem(index));
  for (const CheckpointPart& part : index.state.parts) mention(part_damage(index.path, part));
  return damage.empty() ? damage : cat("'", index.path, "' is damaged: ", damage);
}

nlohmann::json as_json(const Row& row) {
  nlohmann::json shape = nlohmann::json::array();
  for (int axis = 0; axis < row.tensor->shape.rank(); ++axis) shape.push_back(row.tensor->shape[axis]);
  nlohmann::json json = {{"path", row.tensor->path}, {"shape", shape}, {"checksum", row.checksum}};
  json.update(row.values.as_json());
  return json;
}

nlohmann::json as_json(const TableSummary& summary) {
  const RowTable& table = summary.table;
  nlohmann::json json = {
      {"name", table.name}, {"rows", table.rows}, {"width", table.width}, {"slots", table.slots}};
  json.update(summary.values.as_json());
  return json;
}

std::string as_json(const Contents& contents) {
  const FileIndex& index = contents.index;
  nlohmann::json tensors = nlohmann::json::array();
  for (const Row& row : contents.rows) tensors.push_back(as_json(row));
  nlohmann::json tables = nlohmann::json::array();
  for (const TableSummary& table : contents.tables) tables.push_back(as_json(table));
  nlohmann::json all = {{"path", index.path},
                        {"bytes", index.bytes},
                        {"damage", contents.damage},
                        {"tensors", tensors},
                        {"tables", tables}};
  if (index.has_state) all.update(nlohmann::json(index.state));
  // A damaged file may hold any bytes; they must not keep the rest from being shown.
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

template <class Value>
std::string list(const std::map<std::string, Value>& values) {
  std::string line;
  for (const auto& [key, value] : values)
    line += cat(line.empty() ? "" : ", ", config::printable(cat(key, " ", value)));
  return line.empty() ? "none" : line;
}

void print_state(std::ostream& out, const FileIndex& index) {
  const CheckpointState& state = index.state;
  out << index.path << " (" << index.bytes << " bytes)\n";
  if (!index.has_state) {
    out << "weights without training state\n";
    return;
  }
  out << "step            " << state.step << (state.inference_only ? " (inference only)" : "") << '\n'
      << "epoch           " << state.position.epoch << ", next sample " << state.position.offset << '\n'
      << "samples         " << state.samples << '\n'
      << "seed            " << state.seed << '\n'
      << "optimizer step  " << state.optimizer_step << '\n'
      << "versions        " << list(state.versions) << '\n'
      << "choices         " << list(state.choices) << '\n';
  if (state.training_samples > 0) out << "training data   " << state.training_samples << " samples\n";
  if (!state.numbers.empty()) out << "numbers         " << list(state.numbers) << '\n';
  for (const auto* parts : {&state.parts, &state.server_parts})
    for (const CheckpointPart& part : *parts)
      out << "part            " << part.name << " (" << part.bytes << " bytes)\n";
  out << "schema          " << state.schema << '\n';
}

using Line = std::vector<std::string>;

Line joined(Line begin, const Line& end) {
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

void print_tensors(std::ostream& out, const std::vector<Row>& rows) {
  std::vector<Line> lines = {joined(joined({"tensor", "shape"}, ValueStatistics::headings()), {"checksum"})};
  for (const Row& row : rows)
    lines.push_back(
        joined(joined({row.tensor->path, row.tensor->shape.text()}, row.values.words()), {row.checksum}));
  print_columns(out, lines);
}

void print_tables(std::ostream& out, const std::vector<TableSummary>& tables) {
  if (tables.empty()) return;
  std::vector<Line> lines = {joined({"table", "rows", "width", "state"}, ValueStatistics::headings())};
  for (const auto& [table, values] : tables) {
    std::string slots;
    for (const std::string& slot : table.slots) slots += (slots.empty() ? "" : ", ") + slot;
    lines.push_back(joined(
        {table.name, std::to_string(table.rows), std::to_string(table.width), slots.empty() ? "none" : slots},
        values.words()));
  }
  out << '\n';
  print_columns(out, lines);
}

std::string as_table(const Contents& contents, bool with_deck) {
  const std::vector<Row>& rows = contents.rows;
  std::ostringstream out;
  print_state(out, contents.index);
  std::int64_t values = 0;
  for (const Row& row : rows) values += row.tensor->shape.size();
  out << "tensors         " << rows.size() << " with " << values << " values\n\n";
  print_tensors(out, rows);
  print_tables(out, contents.tables);
  if (with_deck) out << "\ndeck:\n" << without_controls(contents.index.state.deck);
  return out.str();
}

}  // namespace

void print_columns(std::ostream& out, std::vector<std::vector<std::string>> lines) {
  for (auto& line : lines)
    for (std::string& word : line) word = config::printable(word);
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto& line : lines) {
    out << std::left << std::setw(static_cast<int>(widths[0])) << line[0] << std::right;
    for (std::size_t i = 1; i < line.size(); ++i)
      out << std::setw(static_cast<int>(widths[i]) + 2) << line[i];
    out << '\n';
  }
}

Inspection inspect(const std::string& file_or_folder, const InspectOptions& options) {
  if (auto arrays = inspect_arrays(file_or_folder, options)) return *std::move(arrays);
  const std::string path = checkpoint_at(file_or_folder, [&](const std::string& text) {
    if (options.warn) options.warn(text);
  });
  const FileIndex index = hdf5::read_index(path);
  ValueReader reader(index);
  Contents contents{.index = index};
  for (const StoredTensor& tensor : index.tensors)
    if (!is_of_rows(tensor.path)) contents.rows.push_back(describe_values(reader, tensor));
  contents.tables = describe_tables(index, contents.table_damage);
  contents.damage = damage_of(contents);
  return {options.json ? as_json(contents) : as_table(contents, options.deck), contents.damage};
}

Subcommand inspect_command() {
  return SubcommandOf<InspectArguments>{
      .name = "inspect",
      .help = "Print what a checkpoint or a file of data holds",
      .add_options =
          [](CLI::App& command, InspectArguments& arguments, Positionals& /*positionals*/) {
            command
                .add_option("FILE", arguments.checkpoint,
                            "Checkpoint, exported model, a run's folder, or data: HDF5, .npy, .npz, IDX, "
                            "CIFAR's .bin, CSV; of "
                            "images, tar files, lists and logs it says which key reads them")
                ->required();
            command.add_flag("--json", arguments.json, "As JSON");
            command.add_flag("--deck", arguments.show_deck,
                             "Print the deck in it as well; of CSV, HDF5 and .npz a deck that trains on it, "
                             "alone");
            command.add_option(
                "--target", arguments.target,
                "Of CSV: the column that the deck predicts (one called like a label, or the last)");
          },
      .run_alone = [](const InspectArguments& arguments) -> int {
        const Inspection inspection = inspect(arguments.checkpoint, {.json = arguments.json,
                                                                     .deck = arguments.show_deck,
                                                                     .target = arguments.target,
                                                                     .warn = print_warning});
        print_line(inspection.text);
        if (!inspection.damage.empty()) throw UserError(inspection.damage);
        return exit_done;
      },
  };
}

}  // namespace flotilla
