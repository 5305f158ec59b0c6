// SPDX-License-Identifier: Apache-2.0
#include "src/commands/inspect_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/data_config.hpp"
#include "src/config/values.hpp"
#include "src/data/arrays/csv_text.hpp"
#include "src/data/data_file.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr std::size_t max_texts = 1000;           // of a column that are counted
constexpr std::size_t max_deck_categories = 100;  // of a column that the deck takes as one of categories
constexpr std::size_t max_classes = 20;           // of integers that the deck takes for labels
constexpr std::int64_t min_to_divide = 10;        // samples of which the deck holds some back

/// The facts about a column.
struct TableColumn {
  std::string name;
  std::int64_t numbers = 0;
  std::int64_t missing = 0;
  std::int64_t others = 0;  ///< Neither
  bool whole = true;        ///< All numbers are integers
  double sum = 0.0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  std::int64_t commas = 0;  ///< Of the numbers, those with a decimal comma
  std::string first_comma{};
  std::set<std::string, std::less<>> texts{};  ///< Up to max_texts and one more

  bool is_text() const { return others > 0; }
  bool is_empty() const { return numbers + others == 0; }
};

/// The facts about a file.
struct Table {
  std::string path;
  char delimiter = ',';
  bool header = true;
  std::int64_t rows = 0;
  std::int64_t bad_lines = 0;  ///< Lines with another number of fields
  std::string first_bad{};
  std::vector<TableColumn> columns{};
};

/// The letter that cuts the first line into the most fields.
char delimiter_in(std::string_view text) {
  char best = ',';
  std::size_t most = 0;
  for (const char letter : {',', ';', '\t', '|'}) {
    std::vector<CsvField> fields;
    CsvRecords records(text, letter, 1);
    try {
      records.next(fields);
    } catch (const UserError&) {
      continue;
    }
    if (fields.size() > most) best = letter;
    most = std::max(most, fields.size());
  }
  return best;
}

/// Names are not numbers, and they are unique.
bool is_header(const std::vector<CsvField>& fields) {
  std::set<std::string_view> names;
  double ignored = 0.0;
  for (const CsvField& field : fields)
    if (parse_csv_number(field.text, ignored) == CsvNumber::good || !names.insert(field.text).second)
      return false;
  return true;
}

/// @param line of the file
void look_at(std::string_view text, std::int64_t line, TableColumn& column) {
  static const std::vector<std::string> missing_texts = TableConfig().missing_texts;
  if (std::ranges::find(missing_texts, text) != missing_texts.end()) {
    ++column.missing;
    return;
  }
  if (column.texts.size() <= max_texts && !column.texts.contains(text)) column.texts.emplace(text);
  double number = 0.0;
  const std::string with_point = with_decimal_point(text);
  if (parse_csv_number(with_point.empty() ? text : with_point, number) != CsvNumber::good) {
    ++column.others;
    return;
  }
  if (!with_point.empty() && column.commas++ == 0)
    column.first_comma = cat("line ", line, ": write ", with_point, " for ", text);
  ++column.numbers;
  column.whole = column.whole && number == std::floor(number);
  column.sum += number;
  column.low = std::min(column.low, number);
  column.high = std::max(column.high, number);
}

Table read_table(const std::string& path) {
  Table table{.path = path};
  const File file = open_data_file(path);
  ProgressLine progress(cat("reading ", path), file.size(), Amount::bytes);
  std::int64_t done = 0;
  read_csv_pieces(file, [&](const std::vector<CsvPiece>& pieces) {
    for (const CsvPiece& piece : pieces) {
      if (table.columns.empty()) table.delimiter = delimiter_in(piece.text);
      CsvRecords records(piece.text, table.delimiter, piece.line);
      std::vector<CsvField> fields;
      try {
        while (records.next(fields)) {
          const bool first = table.columns.empty();
          if (first) {
            table.header = is_header(fields);
            for (const CsvField& field : fields)
              table.columns.push_back(
                  {.name = table.header ? std::string(field.text) : cat(table.columns.size() + 1)});
            if (table.header) continue;
          }
          if (fields.size() != table.columns.size()) {
            if (table.bad_lines++ == 0)
              table.first_bad = cat(path, ":", records.line(), ": has ", fields.size(),
                                    " fields, but the first line has ", table.columns.size());
            continue;
          }
          ++table.rows;
          for (std::size_t k = 0; k < fields.size(); ++k)
            look_at(fields[k].text, records.line(), table.columns[k]);
        }
      } catch (const UserError& error) {
        throw UserError(cat(path, ":", records.line(), ": ", error.what()));
      }
      done += std::ssize(piece.text);
      progress.at(std::min(done, file.size()));
    }
    return true;
  });
  if (table.columns.empty())
    throw UserError(cat(path, file.size() == 0 ? ": is an empty CSV file: copy or download it again"
                                               : ": holds no sample, only empty lines"));
  return table;
}

/// A column that is predicted, and how it was chosen.
struct Target {
  std::size_t column = 0;
  std::string remark{};  ///< A comment for the deck
};

/// The named column; without a name the one with a usual name of a label or target, otherwise the last one.
/// @throws UserError where there is none of that name
Target target_of(const Table& table, const std::string& named) {
  std::vector<std::string> small;
  for (const TableColumn& column : table.columns) {
    if (!named.empty() && column.name == named) return {.column = small.size()};
    small.push_back(config::lower_case(column.name));
  }
  if (!named.empty())
    throw UserError(cat(table.path, ": has no column ", config::quoted(named),
                        " (--target): flotilla inspect ", table.path, " lists them"));
  static constexpr std::array<std::string_view, 15> names = {
      "target",  "label",    "class", "labels",    "survived", "outcome", "y",    "species",
      "quality", "category", "churn", "diagnosis", "response", "default", "price"};
  for (const std::string_view name : names) {
    const auto found = std::ranges::find(small, name);
    const std::size_t k = static_cast<std::size_t>(found - small.begin());
    const bool is_coordinate = name == "y" && k > 0 && small[k - 1] == "x" && k + 1 < small.size();
    if (found != small.end() && !is_coordinate)
      return {.column = k, .remark = "  # a guess by its name: --target COLUMN names another"};
  }
  return {.column = small.size() - 1, .remark = "  # a guess, the last one: --target COLUMN names another"};
}

/// The name of a column for a key, or its number where it has none.
std::string key_name(const Table& table, std::size_t k) {
  return config::quoted(table.columns[k].name.empty() ? cat(k + 1) : table.columns[k].name);
}

/// Why the deck leaves a column out, as a comment; empty: it does not.
std::string reason_to_ignore(const Table& table, const TableColumn& column) {
  if (column.is_empty()) return "is empty";
  if (column.name.empty()) return "has no name";
  const bool counts = column.whole && column.numbers == table.rows && column.texts.size() > max_classes &&
                      column.high - column.low + 1.0 == static_cast<double>(table.rows);
  if (counts && !column.is_text()) return "counts the lines";
  const bool many = column.is_text() && column.texts.size() > max_deck_categories;
  return many ? cat("has more than ", max_deck_categories, " different texts") : "";
}

std::string deck_of(const Table& table, const std::string& target_name) {
  const auto [target, remark] = target_of(table, target_name);
  const TableColumn& label = table.columns[target];
  const bool classes = label.is_text() || (label.whole && label.texts.size() <= max_classes);
  std::string categories;
  std::string ignored;
  std::string comments;
  bool missing = false;
  for (std::size_t k = 0; k < table.columns.size(); ++k) {
    const TableColumn& column = table.columns[k];
    if (column.commas > 0)
      comments += cat("# ", key_name(table, k), " has decimal commas, which are refused (",
                      config::printable(column.first_comma), ")\n");
    if (k == target) continue;
    const std::string reason = reason_to_ignore(table, column);
    if (!reason.empty()) comments += cat("# ", key_name(table, k), " is left out: it ", reason, "\n");
    std::string* const list = !reason.empty() ? &ignored : column.is_text() ? &categories : nullptr;
    if (list != nullptr) *list += cat(list->empty() ? "" : ", ", key_name(table, k));
    missing = missing || (list != &ignored && column.missing > 0);
  }
  std::string text = "[data]\nkind = \"csv\"\n";
  if (table.delimiter != ',')
    text += cat("delimiter = \"",
                table.delimiter == '\t' ? std::string("tab") : std::string(1, table.delimiter), "\"\n");
  if (!table.header) text += "header = false\n";
  text += cat("target_columns = [", key_name(table, target), "]", remark, "\n");
  if (!categories.empty()) text += cat("categories = [", categories, "]\n");
  text += comments;
  if (!ignored.empty()) text += cat("ignored_columns = [", ignored, "]\n");
  if (missing) text += "fill_missing = \"mean\"\n";
  return text + rest_of_deck(table.path, table.rows, classes ? 0 : 1, true);
}

std::string kind_of_column(const TableColumn& column) {
  if (column.is_empty()) return "empty";
  if (column.commas > 0 && !column.is_text()) return "decimal commas";
  if (!column.is_text()) return column.whole ? "integers" : "numbers";
  return column.numbers > 0 ? "texts, numbers" : "texts";
}

std::string table_text(const Table& table, const std::string& target) {
  std::ostringstream out;
  out << table.path << ": a CSV file, " << table.rows << " samples, " << table.columns.size()
      << " columns; data.kind = \"csv\" reads it\n";
  if (table.bad_lines > 0)
    out << "lines with another number of fields: " << table.bad_lines << ", the first is " << table.first_bad
        << '\n';
  std::vector<std::vector<std::string>> lines = {
      {"column", "name", "holds", "different", "missing", "mean", "min", "max"}};
  const auto number = [](double value) { return fmt::format("{:.6g}", value); };
  for (const TableColumn& column : table.columns) {
    const bool known = column.numbers > 0 && !column.is_text();
    lines.push_back({cat(lines.size()), column.name, kind_of_column(column),
                     column.texts.size() > max_texts ? cat("over ", max_texts) : cat(column.texts.size()),
                     cat(column.missing),
                     known ? number(column.sum / static_cast<double>(column.numbers)) : "-",
                     known ? number(column.low) : "-", known ? number(column.high) : "-"});
  }
  print_columns(out, lines);
  if (table.rows > 0)
    out << "\n# A deck for it: flotilla inspect --deck prints it alone\n" << deck_of(table, target);
  return out.str();
}

std::string table_json(const Table& table) {
  nlohmann::ordered_json columns = nlohmann::ordered_json::array();
  for (const TableColumn& column : table.columns)
    columns.push_back({{"name", column.name},
                       {"holds", kind_of_column(column)},
                       {"numbers", column.numbers},
                       {"missing", column.missing},
                       {"texts", column.others}});
  const nlohmann::ordered_json all{
      {"path", table.path},     {"format", "a CSV file"}, {"delimiter", std::string(1, table.delimiter)},
      {"header", table.header}, {"samples", table.rows},  {"columns", columns}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string rest_of_deck(const std::string& path, std::int64_t samples, std::int64_t outputs, bool scaled) {
  std::string text = scaled ? "input_mean = \"auto\"\ninput_std = \"auto\"\n" : "";
  if (outputs > 0) text += "target_mean = \"auto\"\ntarget_std = \"auto\"\n";
  text += cat("train.path = ", config::quoted(path), "\n",
              samples < min_to_divide ? "# validation.path = other samples\n"
                                      : "validation.share = 0.2  # of these samples, held back; or name "
                                        "others in validation.path\n",
              "\n[model]\nkind = \"mlp\"\nwidths = [64]\nactivation = \"relu\"\n");
  if (outputs > 0) text += cat("loss = \"mse\"\noutputs = ", outputs, "\n");
  std::int64_t batch = 1;
  while (batch < 64 && 16 * batch < samples) batch *= 2;
  return text +
         fmt::format(
             "\n[train]\nglobal_batch_size = {}\nepochs = 20\n\n[optimizer]\nkind = \"adam\"\n\n[schedule]\n"
             "learning_rate = 0.001\n",
             batch);
}

Inspection inspect_table(const std::string& path, const InspectOptions& options) {
  const Table table = read_table(path);
  if (options.deck && table.rows == 0)
    throw UserError(cat(path, ": holds no sample, only a header: no deck trains on it"));
  for (const TableColumn& column : table.columns)
    if (column.commas > 0 && options.warn)
      options.warn(cat(path, ": the column ", config::quoted(column.name), " has ", column.commas,
                       column.commas == 1 ? " number" : " numbers",
                       " with a decimal comma, which training refuses; ", column.first_comma));
  return {.text = options.json   ? table_json(table)
                  : options.deck ? deck_of(table, options.target)
                                 : table_text(table, options.target),
          .damage = {}};
}

}  // namespace flotilla
