// SPDX-License-Identifier: Apache-2.0
#include "src/commands/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/checksum.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/checkpoint/value_reader.hpp"

namespace flotilla {

namespace {

/// Statistics of a tensor's values.
struct Row {
  const StoredTensor* tensor = nullptr;
  std::int64_t finite = 0;
  std::int64_t non_finite = 0;
  double sum = 0.0;
  double sum_of_squares = 0.0;
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  std::string checksum;  ///< "ok", "damaged", "none" or "unreadable"
  std::string damage;    ///< The sentence that explains the last word

  /// Nothing where there is no finite value to say it of.
  std::optional<double> over_finite(double value) const {
    return finite > 0 ? std::optional(value) : std::nullopt;
  }
  std::optional<double> mean() const { return over_finite(sum / static_cast<double>(finite)); }
  std::optional<double> rms() const {
    return over_finite(std::sqrt(sum_of_squares / static_cast<double>(finite)));
  }
};

void add(Row& row, std::span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++row.non_finite;
      continue;
    }
    ++row.finite;
    row.sum += value;
    row.sum_of_squares += static_cast<double>(value) * value;
    row.min = std::min(row.min, value);
    row.max = std::max(row.max, value);
  }
}

Row describe(ValueReader& reader, const StoredTensor& tensor) {
  Row row;
  row.tensor = &tensor;
  try {
    if (!tensor.problem.empty()) throw UserError(cat("/", tensor.path, " ", tensor.problem));
    Checksum sum;
    reader.pieces(tensor, [&](std::span<const float> values) {
      sum.add(std::as_bytes(values));
      add(row, values);
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

/// With the parts that a checkpoint names.
std::string damage_of(const FileIndex& index, const std::vector<Row>& rows) {
  std::string damage;
  const auto mention = [&](const std::string& what) {
    if (!what.empty()) damage += (damage.empty() ? "" : "; ") + what;
  };
  for (const std::string& problem : index.problems) mention(problem);
  for (const Row& row : rows) mention(row.damage);
  if (damage.empty()) mention(index_problem(index));
  for (const CheckpointPart& part : index.state.parts) mention(part_damage(index.path, part));
  return damage.empty() ? damage : cat("'", index.path, "' is damaged: ", damage);
}

nlohmann::json as_json(const Row& row) {
  const auto number = [](std::optional<double> value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  nlohmann::json shape = nlohmann::json::array();
  for (int axis = 0; axis < row.tensor->shape.rank(); ++axis) shape.push_back(row.tensor->shape[axis]);
  return {{"path", row.tensor->path},
          {"shape", shape},
          {"mean", number(row.mean())},
          {"rms", number(row.rms())},
          {"min", number(row.over_finite(row.min))},
          {"max", number(row.over_finite(row.max))},
          {"non_finite", row.non_finite},
          {"checksum", row.checksum}};
}

std::string as_json(const FileIndex& index, const std::vector<Row>& rows, const std::string& damage) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const Row& row : rows) tensors.push_back(as_json(row));
  nlohmann::json all = {
      {"path", index.path}, {"bytes", index.bytes}, {"damage", damage}, {"tensors", tensors}};
  if (index.has_state) all.update(nlohmann::json(index.state));
  // A damaged file may hold any bytes; they must not keep the rest from being shown.
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

template <class Value>
std::string list(const std::map<std::string, Value>& values) {
  std::string line;
  for (const auto& [key, value] : values) line += cat(line.empty() ? "" : ", ", key, " ", value);
  return line.empty() ? "none" : line;
}

std::string number(std::optional<double> value) {
  std::ostringstream text;
  if (value)
    text << std::setprecision(5) << *value;
  else
    text << "-";
  return text.str();
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
  if (!state.numbers.empty()) out << "strategy        " << list(state.numbers) << '\n';
  for (const CheckpointPart& part : state.parts)
    out << "part            " << part.name << " (" << part.bytes << " bytes)\n";
  out << "schema          " << state.schema << '\n';
}

void print_table(std::ostream& out, const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> lines = {
      {"tensor", "shape", "mean", "rms", "min", "max", "non-finite", "checksum"}};
  for (const Row& row : rows)
    lines.push_back({row.tensor->path, row.tensor->shape.text(), number(row.mean()), number(row.rms()),
                     number(row.over_finite(row.min)), number(row.over_finite(row.max)),
                     std::to_string(row.non_finite), row.checksum});
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

std::string as_table(const FileIndex& index, const std::vector<Row>& rows, bool with_deck) {
  std::ostringstream out;
  print_state(out, index);
  std::int64_t values = 0;
  for (const Row& row : rows) values += row.tensor->shape.size();
  out << "tensors         " << rows.size() << " with " << values << " values\n\n";
  print_table(out, rows);
  if (with_deck) out << "\ndeck:\n" << index.state.deck;
  return out.str();
}

}  // namespace

Inspection inspect(const std::string& file_or_folder, const InspectOptions& options) {
  const std::string path = checkpoint_at(file_or_folder, [&](const std::string& text) {
    if (options.on_damaged) options.on_damaged(text);
  });
  const FileIndex index = hdf5::read_index(path);
  ValueReader reader(index);
  std::vector<Row> rows;
  for (const StoredTensor& tensor : index.tensors) rows.push_back(describe(reader, tensor));
  const std::string damage = damage_of(index, rows);
  return {options.json ? as_json(index, rows, damage) : as_table(index, rows, options.deck), damage};
}

}  // namespace flotilla
