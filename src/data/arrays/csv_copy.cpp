// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/csv_copy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/arrays/csv_text.hpp"
#include "src/data/data_file.hpp"
#include "src/data/mistake_list.hpp"
#include "src/data/run_on_threads.hpp"
#include "src/observe/print.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr std::size_t max_categories = 4096;  // of a column: each is an input
constexpr std::size_t max_labels = 65536;
constexpr std::size_t max_columns_told = 20;
constexpr const char* named_in_training = "a column of the training data";
constexpr double missing_value = std::numeric_limits<double>::quiet_NaN();

char delimiter_of(const DataConfig& data) {
  return data.table.delimiter == "tab" ? '\t' : data.table.delimiter.front();
}

/// "a", "b" and 3 more.
std::string columns_told(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t k = 0; k < std::min(names.size(), max_columns_told); ++k)
    text += (k == 0 ? "" : ", ") + shown(names[k]);
  return names.size() > max_columns_told ? cat(text, " and ", names.size() - max_columns_told, " more")
                                         : text;
}

/// The columns of a file, those of the inputs first.
struct CsvLayout {
  std::vector<CsvColumn> columns{};
  std::size_t fields = 0;   ///< Fields of a record
  bool ends_empty = false;  ///< A delimiter also follows the last column
};

/// The names of a file's columns, from its first record: their numbers where there is no header.
std::vector<std::string> header_of(const std::string& path, const DataConfig& data,
                                   const std::vector<CsvField>& first) {
  std::vector<std::string> names;
  bool numbers = true;
  bool fractions = false;
  for (const CsvField& field : first) {
    double ignored = 0.0;
    numbers = numbers && parse_csv_number(field.text, ignored) == CsvNumber::good;
    fractions = fractions || field.text.find('.') != field.text.npos;
    names.push_back(data.table.header ? std::string(field.text) : cat(names.size() + 1));
  }
  if (!data.table.header) return names;
  if (!std::ranges::all_of(names, config::is_utf8))
    throw UserError(cat(path, ":1: the header is not UTF-8: convert the file to UTF-8"));
  if (numbers && fractions)
    throw UserError(cat(path, ":1: the first line holds numbers, not names: set data.header = false"));
  for (std::size_t k = 0; k < names.size(); ++k) {
    const auto again = std::find(names.begin() + static_cast<std::ptrdiff_t>(k) + 1, names.end(), names[k]);
    if (names[k].empty() || again == names.end()) continue;
    throw UserError(cat(path, ":1: the header names two columns ", shown(names[k]), ", ", k + 1, " and ",
                        again - names.begin() + 1, ": rename one of them",
                        numbers ? ", or set data.header = false" : ""));
  }
  return names;
}

/// The names in the first record of a file. @throws UserError where it has none, or is no text
std::vector<std::string> first_record(const std::string& path, const DataConfig& data) {
  refuse_other_kinds(path, FileFormat::csv, "a CSV file");
  std::vector<std::string> names;
  read_csv_pieces(open_data_file(path), [&](const std::vector<CsvPiece>& pieces) {
    CsvRecords records(pieces.front().text, delimiter_of(data), 1);
    std::vector<CsvField> fields;
    try {
      if (!records.next(fields)) return true;
    } catch (const UserError& error) {
      throw UserError(cat(path, ":", records.line(), ": ", error.what()));
    }
    names = header_of(path, data, fields);
    return false;
  });
  if (names.empty())
    throw UserError(cat(path, ": is empty: give a file that holds samples, or leave it out"));
  return names;
}

/// The place of a column that a key names. @throws UserError where there is none
std::size_t find_column(const std::string& path, const std::vector<std::string>& header,
                        const std::string& name, const std::string& key) {
  const auto found = std::ranges::find(header, name);
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  const bool digits = !name.empty() && name.size() < 8 && name.find_first_not_of("0123456789") == name.npos;
  const std::size_t number = digits ? std::stoul(name) : 0;
  if (0 < number && number <= header.size()) return number - 1;
  std::string hint;
  for (const auto& [letter, word] : {std::pair(';', ";"), std::pair('\t', "tab"), std::pair(',', ",")})
    if (header.size() == 1 && header.front().find(letter) != std::string::npos)
      hint = cat("; set data.delimiter = \"", word, "\"");
  double number_read = 0.0;
  for (std::size_t k = 0; k < header.size() && hint.empty(); ++k)
    if (header[k] != cat(k + 1) && parse_csv_number(header[k], number_read) == CsvNumber::good)
      hint = key == named_in_training
                 ? "; its first line holds numbers: write the names of the columns above it"
                 : "; where the first line is a sample, set data.header = false and name columns "
                   "by their numbers, from 1 on";
  throw UserError(
      cat(path, ":1: has no column ", shown(name), " (", key, "): it has ", columns_told(header), hint));
}

/// The columns of inputs by name, where no key names them: all others.
std::vector<std::string> other_columns(const std::string& path, const DataConfig& data,
                                       const std::vector<std::string>& header) {
  std::set<std::size_t> taken;
  for (const std::string& name : data.table.target_columns)
    taken.insert(find_column(path, header, name, "data.target_columns"));
  for (const std::string& name : data.table.ignored_columns)
    taken.insert(find_column(path, header, name, "data.ignored_columns"));
  std::vector<std::string> names;
  for (std::size_t k = 0; k < header.size(); ++k) {
    if (taken.contains(k) || (header[k].empty() && k + 1 == header.size() && k > 0)) continue;
    if (header[k].empty())
      throw UserError(
          cat(path, ":1: column ", k + 1,
              " has no name (pandas writes its index so): leave it out by data.ignored_columns = [\"", k + 1,
              "\"], or name it"));
    names.push_back(header[k]);
  }
  return names;
}

CsvLayout csv_layout_of(const std::string& path, const DataRequest& request,
                        const std::vector<std::string>& header, const std::vector<std::string>& inputs) {
  const DataConfig& data = request.data;
  CsvLayout layout{.fields = header.size()};
  layout.ends_empty = data.table.header && header.size() > 1 && header.back().empty();
  std::set<std::size_t> categories;
  for (const std::string& name : data.table.categories)
    categories.insert(
        find_column(path, header, name, data.found.columns.empty() ? "data.categories" : named_in_training));
  std::set<std::size_t> taken;
  const auto add = [&](const std::string& name, const char* key, bool target) {
    const std::size_t field = find_column(path, header, name, key);
    if (!taken.insert(field).second)
      throw UserError(cat(path, ":1: the column ", shown(name), " is named twice (", key,
                          "): it is one input, or a target"));
    layout.columns.push_back({.name = name,
                              .field = field,
                              .texts = target ? data.table.labels_classes : categories.erase(field) > 0,
                              .target = target});
  };
  for (const std::string& name : inputs)
    add(name, data.table.columns.empty() ? named_in_training : "data.columns", false);
  if (request.source.has_labels())
    for (const std::string& name : data.table.target_columns) add(name, "data.target_columns", true);
  if (!categories.empty())
    throw UserError(cat(path, ":1: data.categories names ", shown(header[*categories.begin()]),
                        ", which is no input: name it in data.columns, or leave it out"));
  if (inputs.empty()) throw UserError(cat(path, ":1: no column is left that is an input"));
  return layout;
}

/// The rows of a piece, in doubles; texts by their number in `table`.
struct CsvRows {
  std::vector<double> values{};
  CsvTable table{};
  MistakeList mistakes{};
};

/// Makes rows of records.
class CsvParser {
 public:
  CsvParser(const std::string& path, const DataConfig& data, const CsvLayout& layout)
      : path_(path),
        data_(data),
        layout_(layout),
        missing_(data.table.missing_texts.begin(), data.table.missing_texts.end()) {}

  CsvRows parse(const CsvPiece& piece) const {
    CsvRows rows{.table = new_table()};
    CsvRecords records(piece.text, delimiter_of(data_), piece.line);
    std::vector<CsvField> fields;
    try {
      while (records.next(fields)) add_row(fields, records.line(), rows);
    } catch (const UserError& error) {
      rows.mistakes.add(cat(path_, ":", records.line(), ": ", error.what()));
    }
    return rows;
  }

  CsvTable new_table() const {
    const std::size_t columns = layout_.columns.size();
    return {.words = std::vector<CsvWords>(columns),
            .sums = std::vector<double>(columns),
            .counts = std::vector<std::int64_t>(columns)};
  }

 private:
  void add_row(const std::vector<CsvField>& fields, std::int64_t line, CsvRows& rows) const {
    const auto refuse = [&](const std::string& kind, const auto&... parts) {
      if (!rows.mistakes.count_another(kind))
        rows.mistakes.add(rows.mistakes.keeps_more() ? cat(path_, ":", line, ": ", parts...) : "", kind);
    };
    const bool ends_empty = layout_.ends_empty && fields.size() == layout_.fields;
    if (fields.size() + (layout_.ends_empty && !ends_empty ? 1 : 0) != layout_.fields ||
        (ends_empty && !fields.back().text.empty())) {
      const bool more = fields.size() == layout_.fields + 1 && fields.back().text.empty();
      refuse("", "has ", fields.size(), fields.size() == 1 ? " field" : " fields",
             ", but the first line has ", layout_.fields - (layout_.ends_empty ? 1 : 0),
             more ? ": take the delimiter at the end of the line away"
                  : ": put fields that hold the delimiter in quotes, or correct the line");
      return;
    }
    ++rows.table.rows;
    for (std::size_t k = 0; k < layout_.columns.size(); ++k) {
      const CsvColumn& column = layout_.columns[k];
      const CsvField& field = fields[column.field];
      const bool missing = !field.quoted || field.text.empty() ? missing_.contains(field.text) : false;
      if (missing && (column.target || data_.table.fill_missing.empty()))
        refuse(cat("missing ", k), place(column), " is missing (", shown(field.text),
               "): correct or delete the line",
               column.target ? "" : ", or give data.fill_missing = \"mean\" or a number");
      rows.values.push_back(missing ? missing_value : value_of(column, field.text, line, k, rows, refuse));
    }
  }

  double value_of(const CsvColumn& column, std::string_view text, std::int64_t line, std::size_t k,
                  CsvRows& rows, const auto& refuse) const {
    if (column.texts) {
      if (!config::is_utf8(text)) refuse("", place(column), " is not UTF-8: convert the file to UTF-8");
      return static_cast<double>(rows.table.words[k].number_of(text, [&] { return cat(path_, ":", line); }));
    }
    double number = 0.0;
    const CsvNumber read = parse_csv_number(text, number);
    if (read == CsvNumber::good) {
      rows.table.sums[k] += number;
      ++rows.table.counts[k];
    } else {
      refuse(cat("number ", k), place(column), " is ", shown(text),
             read == CsvNumber::not_finite ? ", which is no finite number: correct or delete the line"
                                           : advice(column, text));
    }
    return number;
  }

  std::string place(const CsvColumn& column) const {
    return cat("column ", column.field + 1, data_.table.header ? cat(" (", shown(column.name), ")") : "");
  }

  std::string advice(const CsvColumn& column, std::string_view text) const {
    if (const std::string number = with_decimal_point(text); !number.empty())
      return cat(", with a decimal comma: write ", number);
    if (column.target) return ", which is no number; texts are labels of model.loss = \"softmax\"";
    return ", which is no number: name the column in data.categories or data.ignored_columns, or the text in "
           "data.missing_texts";
  }

  const std::string& path_;
  const DataConfig& data_;
  const CsvLayout& layout_;
  std::set<std::string, std::less<>> missing_;
};

/// Appends rows to a copy; their texts get the numbers that they have in it.
class CsvWriter {
 public:
  CsvWriter(const std::string& path, const CsvLayout& layout, CsvTable table)
      : path_(path),
        layout_(layout),
        table_(std::move(table)),
        copy_(File::temporary(temporary_folder(), cat("the numbers of ", path))) {}

  void append(CsvRows& rows) {
    mistakes_.add(rows.mistakes);
    if (!mistakes_.empty()) return;
    const std::size_t width = layout_.columns.size();
    for (std::size_t k = 0; k < width; ++k) {
      table_.sums[k] += rows.table.sums[k];
      table_.counts[k] += rows.table.counts[k];
      if (layout_.columns[k].texts) take_words(rows, k);
    }
    table_.rows += rows.table.rows;
    copy_.append(std::as_bytes(std::span(rows.values)));
  }

  File finish() {
    mistakes_.throw_if_any(path_);
    if (table_.rows == 0)
      throw UserError(cat(path_, ": holds no sample, only a header or empty lines: leave the file out"));
    nlohmann::json words = nlohmann::json::array();
    for (const CsvWords& column : table_.words) {
      words.push_back(nlohmann::json::array());
      for (const Word& word : column.words) words.back().push_back({word.text, word.place});
    }
    nlohmann::json columns = nlohmann::json::array();
    for (const CsvColumn& column : layout_.columns)
      columns.push_back({column.name, column.texts, column.target});
    const std::string text = nlohmann::json{
        {"rows", table_.rows},
        {"columns", columns},
        {"words", words},
        {"sums", table_.sums},
        {"counts",
         table_.counts}}.dump();
    const std::int64_t bytes = std::ssize(text);
    copy_.append(std::as_bytes(std::span(text)));
    copy_.append(std::as_bytes(std::span(&bytes, 1)));
    return std::move(copy_);
  }

 private:
  void take_words(CsvRows& rows, std::size_t k) {
    const CsvColumn& column = layout_.columns[k];
    std::vector<double> numbers;
    for (const Word& word : rows.table.words[k].words)
      numbers.push_back(
          static_cast<double>(table_.words[k].number_of(word.text, [&] { return word.place; })));
    const std::size_t most = column.target ? max_labels : max_categories;
    if (table_.words[k].words.size() > most)
      throw UserError(cat(table_.words[k].words[most].place, ": the column ", shown(column.name),
                          " has more than ", most, " different texts up to here: ",
                          column.target ? "for numbers to be predicted set model.loss = \"mse\""
                                        : "leave it out by data.ignored_columns"));
    for (std::size_t i = k; i < rows.values.size(); i += layout_.columns.size())
      if (!std::isnan(rows.values[i])) rows.values[i] = numbers[static_cast<std::size_t>(rows.values[i])];
  }

  const std::string& path_;
  const CsvLayout& layout_;
  CsvTable table_;
  File copy_;
  MistakeList mistakes_{};
};

}  // namespace

std::size_t CsvWords::number_of(std::string_view text, const std::function<std::string()>& place) {
  const auto [at, is_new] = numbers.try_emplace(std::string(text), words.size());
  if (is_new) words.push_back({at->first, place()});
  return at->second;
}

std::vector<std::string> input_columns(const DataRequest& request, const std::string& path) {
  const DataConfig& data = request.data;
  if (!data.found.columns.empty()) return data.found.columns;
  if (!data.table.columns.empty()) return data.table.columns;
  return other_columns(path, data, first_record(path, data));
}

File converted_csv(const std::string& path, const DataRequest& request,
                   const std::vector<std::string>& inputs) {
  const DataConfig& data = request.data;
  const File file = open_data_file(path);
  const CsvLayout layout = csv_layout_of(path, request, first_record(path, data), inputs);
  const CsvParser parser(path, data, layout);
  CsvWriter writer(path, layout, parser.new_table());
  ProgressLine progress(cat("reading ", path), file.size(), Amount::bytes);
  std::int64_t done = 0;
  bool first = true;
  read_csv_pieces(file, [&](const std::vector<CsvPiece>& pieces) {
    std::vector<CsvPiece> own = pieces;
    if (std::exchange(first, false) && data.table.header) {
      CsvRecords records(own.front().text, delimiter_of(data), own.front().line);
      std::vector<CsvField> names;
      records.next(names);
      own.front() = {records.rest(), records.next_line()};
    }
    std::vector<CsvRows> rows(own.size());
    const int threads = static_cast<int>(std::min(data.threads, std::ssize(own)));
    if (threads > 1) {
      run_on_threads(
          own.size(), threads, [&](std::size_t i) { rows[i] = parser.parse(own[i]); }, [] {});
    } else {
      for (std::size_t i = 0; i < own.size(); ++i) rows[i] = parser.parse(own[i]);
    }
    for (CsvRows& each : rows) writer.append(each);
    for (const CsvPiece& piece : pieces) done += std::ssize(piece.text);
    progress.at(std::min(done, file.size()));
    return true;
  });
  return writer.finish();
}

CsvCopy::CsvCopy(std::string path, File copy) : path_(std::move(path)), file_(std::move(copy)) {
  std::int64_t bytes = 0;
  const std::int64_t end = file_.size() - static_cast<std::int64_t>(sizeof bytes);
  file_.read(end, std::as_writable_bytes(std::span(&bytes, 1)));
  std::string text(static_cast<std::size_t>(bytes), ' ');
  file_.read(end - bytes, std::as_writable_bytes(std::span(text)));
  const auto json = nlohmann::json::parse(text);
  json.at("rows").get_to(table_.rows);
  json.at("sums").get_to(table_.sums);
  json.at("counts").get_to(table_.counts);
  for (const auto& column : json.at("columns"))
    columns_.push_back({.name = column.at(0), .texts = column.at(1), .target = column.at(2)});
  for (const auto& column : json.at("words")) {
    table_.words.emplace_back();
    for (const auto& word : column) table_.words.back().words.push_back({word.at(0), word.at(1)});
  }
}

void CsvCopy::read(std::int64_t first, std::int64_t count, std::vector<double>& rows) const {
  rows.resize(static_cast<std::size_t>(count) * columns_.size());
  file_.read(first * row_bytes(), std::as_writable_bytes(std::span(rows)));
}

}  // namespace flotilla
