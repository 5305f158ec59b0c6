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

constexpr std::size_t most_texts = 1000;      // of a column that are counted
constexpr std::size_t most_categories = 100;  // of a column that the deck takes as one of categories
constexpr std::size_t most_classes = 20;      // of integers that the deck takes for labels
constexpr std::int64_t least_to_divide = 10;  // samples of which the deck holds some back

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
  std::set<std::string, std::less<>> texts{};  ///< Up to most_texts and one more

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

void look_at(std::string_view text, TableColumn& column) {
  static const std::vector<std::string> missing_texts = TableConfig().missing_texts;
  if (std::ranges::find(missing_texts, text) != missing_texts.end()) {
    ++column.missing;
    return;
  }
  if (column.texts.size() <= most_texts && !column.texts.contains(text)) column.texts.emplace(text);
  double number = 0.0;
  if (parse_csv_number(text, number) != CsvNumber::good) {
    ++column.others;
    return;
  }
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
          for (std::size_t k = 0; k < fields.size(); ++k) look_at(fields[k].text, table.columns[k]);
        }
      } catch (const UserError& error) {
        throw UserError(cat(path, ":", records.line(), ": ", error.what()));
      }
      done += std::ssize(piece.text);
      progress.at(std::min(done, file.size()));
    }
    return true;
  });
  if (table.columns.empty()) throw UserError(cat(path, ": holds no sample, only empty lines"));
  return table;
}

/// The column with a usual name of a label or target; if there is none, the last one.
std::size_t target_of(const Table& table) {
  static constexpr std::array<std::string_view, 10> names = {
      "label", "class", "target", "y", "labels", "species", "outcome", "category", "quality", "price"};
  for (const std::string_view name : names)
    for (std::size_t k = 0; k < table.columns.size(); ++k) {
      std::string small = table.columns[k].name;
      std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
      if (small == name) return k;
    }
  return table.columns.size() - 1;
}

/// The name of a column for a key, or its number where it has none.
std::string key_name(const Table& table, std::size_t k) {
  return config::quoted(table.columns[k].name.empty() ? cat(k + 1) : table.columns[k].name);
}

std::string deck_of(const Table& table) {
  const std::size_t target = target_of(table);
  const TableColumn& label = table.columns[target];
  const bool classes = label.is_text() || (label.whole && label.texts.size() <= most_classes);
  std::string categories;
  std::string ignored;
  bool missing = false;
  for (std::size_t k = 0; k < table.columns.size(); ++k) {
    const TableColumn& column = table.columns[k];
    if (k == target) continue;
    // Texts of which there are many, and numbers that count the lines.
    const bool counts = column.whole && column.numbers == table.rows && column.texts.size() > most_classes &&
                        column.high - column.low + 1.0 == static_cast<double>(table.rows);
    const bool is_id = counts || (column.is_text() && column.texts.size() > most_categories);
    std::string* const list = column.is_empty() || column.name.empty() || is_id ? &ignored
                              : column.is_text()                                ? &categories
                                                                                : nullptr;
    if (list != nullptr) *list += cat(list->empty() ? "" : ", ", key_name(table, k));
    missing = missing || (list != &ignored && column.missing > 0);
  }
  std::string text = "[data]\nkind = \"csv\"\n";
  if (table.delimiter != ',')
    text += cat("delimiter = \"",
                table.delimiter == '\t' ? std::string("tab") : std::string(1, table.delimiter), "\"\n");
  if (!table.header) text += "header = false\n";
  text += cat("target_columns = [", key_name(table, target),
              "]  # a guess: name the column that is to be predicted\n");
  if (!categories.empty()) text += cat("categories = [", categories, "]\n");
  if (!ignored.empty())
    text +=
        cat("# Left out: names, numbers of lines, and what has many texts (numbers with a decimal comma "
            "are texts).\nignored_columns = [",
            ignored, "]\n");
  if (missing) text += "fill_missing = \"mean\"\n";
  text += "input_mean = \"auto\"\ninput_std = \"auto\"\n";
  if (!classes) text += "target_mean = \"auto\"\ntarget_std = \"auto\"\n";
  text += cat("train.path = ", config::quoted(table.path),
              table.rows < least_to_divide
                  ? "\n# validation.path = other samples\n"
                  : "\nvalidation.share = 0.2  # of these samples, held back; or name others in "
                    "validation.path\n",
              "\n[model]\nkind = \"mlp\"\nwidths = [64]\nactivation = \"relu\"\n",
              classes ? "" : "loss = \"mse\"\noutputs = 1\n");
  std::int64_t batch = 1;
  while (batch < 64 && 16 * batch < table.rows) batch *= 2;
  return text +
         fmt::format(
             "\n[train]\nglobal_batch_size = {}\nepochs = 20\n\n[optimizer]\nkind = \"adam\"\n\n[schedule]\n"
             "learning_rate = 0.001\n",
             batch);
}

std::string kind_of_column(const TableColumn& column) {
  if (column.is_empty()) return "empty";
  if (!column.is_text()) return column.whole ? "integers" : "numbers";
  return column.numbers > 0 ? "texts, numbers" : "texts";
}

std::string table_text(const Table& table) {
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
                     column.texts.size() > most_texts ? cat("over ", most_texts) : cat(column.texts.size()),
                     cat(column.missing),
                     known ? number(column.sum / static_cast<double>(column.numbers)) : "-",
                     known ? number(column.low) : "-", known ? number(column.high) : "-"});
  }
  print_columns(out, lines);
  out << "\n# A deck for it: flotilla inspect --deck prints it alone\n" << deck_of(table);
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

Inspection inspect_table(const std::string& path, const InspectOptions& options) {
  const Table table = read_table(path);
  return {.text = options.json   ? table_json(table)
                  : options.deck ? deck_of(table)
                                 : table_text(table),
          .damage = {}};
}

}  // namespace flotilla
