// SPDX-License-Identifier: Apache-2.0
#include "src/commands/inspect.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/checkpoint/value_reader.hpp"
#include "src/commands/inspect_arrays.hpp"
#include "src/commands/inspect_rows.hpp"
#include "src/commands/text_columns.hpp"
#include "src/commands/value_statistics.hpp"
#include "src/config/values.hpp"
#include "src/files/checksum.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

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

/// With the parts that a checkpoint names; those of servers were read for their tables.
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

Inspection inspect(const std::string& file_or_folder, const InspectOptions& options) {
  if (auto arrays = inspect_arrays(file_or_folder, options)) return *std::move(arrays);
  const std::string path = checkpoint_at(file_or_folder, [&](const std::string& text) {
    if (options.on_damaged) options.on_damaged(text);
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

}  // namespace flotilla
