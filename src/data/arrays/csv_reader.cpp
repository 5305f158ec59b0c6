// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/arrays/array_dataset.hpp"
#include "src/data/arrays/csv_copy.hpp"
#include "src/data/arrays/open_arrays.hpp"
#include "src/data/held_back.hpp"
#include "src/data/mistake_list.hpp"

namespace flotilla {

namespace {

/// Numbers of a copy's rows as an array (N,width): each column is a number, or one for each category.
class CsvArray final : public Array {
 public:
  /// A column of the array's.
  struct Part {
    std::size_t column = 0;  ///< Index in CsvCopy::columns()
    std::size_t width = 1;
    double fill = 0.0;                   ///< Value used for a missing number
    std::vector<std::int64_t> places{};  ///< Category of each word of the copy; −1: none; empty: a number
  };

  CsvArray(ArrayForm form, std::shared_ptr<const CsvCopy> copy, std::vector<Part> parts)
      : Array(std::move(form)), copy_(std::move(copy)), parts_(std::move(parts)) {}

  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    thread_local std::vector<double> rows;
    thread_local std::vector<double> values;
    copy_->read(first, count, rows);
    values.assign(static_cast<std::size_t>(count * form().row_values()), 0.0);
    auto value = values.begin();
    for (std::int64_t row = 0; row < count; ++row) {
      const auto stored = rows.begin() + row * std::ssize(copy_->columns());
      for (const Part& part : parts_) {
        const double number = stored[static_cast<std::ptrdiff_t>(part.column)];
        if (part.places.empty()) {
          *value = std::isnan(number) ? part.fill : number;
        } else if (!std::isnan(number)) {
          const std::int64_t place = part.places[static_cast<std::size_t>(number)];
          if (place >= 0) value[place] = 1.0;
        }
        value += static_cast<std::ptrdiff_t>(part.width);
      }
    }
    std::memcpy(to.data(), values.data(), to.size());
  }
  void will_read(std::int64_t first, std::int64_t count) const override { copy_->will_read(first, count); }

 private:
  std::shared_ptr<const CsvCopy> copy_;
  std::vector<Part> parts_;
};

class CsvFile final : public ArrayFile {
 public:
  CsvFile(std::shared_ptr<const CsvCopy> copy, const FoundInData& found)
      : copy_(std::move(copy)), found_(found) {}

  std::vector<std::string> names() const override { return {"inputs", "targets"}; }
  std::unique_ptr<Array> open(const std::string& name) const override {
    const bool targets = name == "targets";
    std::vector<CsvArray::Part> parts;
    std::vector<Word> words;
    std::size_t width = 0;
    std::size_t texts = 0;
    std::vector<std::string> unknown;
    for (std::size_t k = 0; k < copy_->columns().size(); ++k) {
      const CsvColumn& column = copy_->columns()[k];
      if (column.target != targets) continue;
      const bool is_category = column.texts && !targets;
      const std::size_t place = parts.size();
      parts.push_back({.column = k, .fill = targets || found_.fills.empty() ? 0.0 : found_.fills[place]});
      if (targets && column.texts) words = copy_->table().words[k].words;
      if (is_category)
        take_categories(copy_->table().words[k], found_.categories[place], parts.back(), unknown);
      texts += is_category ? 1 : 0;
      width += parts.back().width;
    }
    if (!targets) check_columns(parts);
    ArrayForm form{.name = cat("'", copy_->path(), "', ", name),
                   .extents = {copy_->table().rows},
                   .type = {.kind = NumberType::Kind::f64},
                   .storage = cat("text, ", parts.size(), parts.size() == 1 ? " column" : " columns",
                                  texts > 0 ? cat(", ", texts, " of categories") : "")};
    if (!targets || width > 1) form.extents.push_back(static_cast<std::int64_t>(width));
    form.words = std::move(words);
    form.warning = warning_of(unknown);
    return std::make_unique<CsvArray>(std::move(form), copy_, std::move(parts));
  }

 private:
  static void take_categories(const CsvWords& words, const std::vector<std::string>& categories,
                              CsvArray::Part& part, std::vector<std::string>& unknown) {
    part.width = categories.size();
    for (const Word& word : words.words) {
      const auto found = std::ranges::lower_bound(categories, word.text);
      const bool known = found != categories.end() && *found == word.text;
      part.places.push_back(known ? found - categories.begin() : -1);
      if (!known) unknown.push_back(cat(shown(word.text), " (", word.place, ")"));
    }
    if (part.places.empty()) part.places.push_back(-1);  // all are missing
  }

  /// Columns of a copy that is older than what was found would be others.
  void check_columns(const std::vector<CsvArray::Part>& parts) const {
    for (std::size_t k = 0; k < parts.size(); ++k)
      require(parts.size() == found_.columns.size() &&
                  copy_->columns()[parts[k].column].name == found_.columns[k],
              copy_->path(), ": its columns are not those of the training data");
  }

  std::string warning_of(const std::vector<std::string>& unknown) const {
    if (unknown.empty()) return {};
    return cat(copy_->path(), ": ", unknown.size(), unknown.size() == 1 ? " category is" : " categories are",
               " not among those of the training data, the first is ", unknown.front(),
               ": all inputs of its column are 0 there");
  }

  std::shared_ptr<const CsvCopy> copy_;
  const FoundInData& found_;
};

std::map<std::string, File> converted_files(const DataRequest& request) {
  const std::vector<std::string> files = array_files(request);
  // The columns of the training data are those of all; a model that is applied brings them along.
  std::string first = files.front();
  if (!request.use.training && request.data.found.columns.empty() && request.data.table.columns.empty() &&
      request.data.train.given)
    first = array_files({.data = request.data, .source = request.data.train, .use = DatasetUse()}).front();
  const std::vector<std::string> inputs = input_columns(request, first);
  std::map<std::string, File> copies;
  MistakeList mistakes;
  for (const std::string& path : files)
    mistakes.attempt([&] { copies.emplace(path, converted_csv(path, request, inputs)); });
  mistakes.throw_if_any(config::printable(request.source.path));
  return copies;
}

std::shared_ptr<const CsvCopy> open_copy(const DataRequest& request, const std::string& path) {
  std::optional<File> copy;
  if (const auto handle = request.use.inflated.find(path); handle != request.use.inflated.end())
    copy = File::of_handle(handle->second, cat("the numbers of ", path));
  if (!copy) copy = converted_csv(path, request, input_columns(request, path));
  return std::make_shared<const CsvCopy>(path, std::move(*copy));
}

/// Facts about some rows of a copy, in place of those about all; labels stay those of all.
CsvTable table_of_rows(const CsvCopy& copy, std::span<const std::int64_t> rows) {
  const std::size_t columns = copy.columns().size();
  CsvTable table{.rows = std::ssize(rows),
                 .words = std::vector<CsvWords>(columns),
                 .sums = std::vector<double>(columns),
                 .counts = std::vector<std::int64_t>(columns)};
  std::vector<std::vector<bool>> seen;
  for (const CsvWords& words : copy.table().words) seen.emplace_back(words.words.size());
  std::vector<double> row;
  for (const std::int64_t number : rows) {
    copy.read(number, 1, row);
    for (std::size_t k = 0; k < columns; ++k) {
      if (std::isnan(row[k])) continue;
      if (copy.columns()[k].texts) {
        seen[k][static_cast<std::size_t>(row[k])] = true;
        continue;
      }
      table.sums[k] += row[k];
      ++table.counts[k];
    }
  }
  for (std::size_t k = 0; k < columns; ++k)
    for (std::size_t word = 0; word < seen[k].size(); ++word)
      if (seen[k][word] || copy.columns()[k].target)
        table.words[k].words.push_back(copy.table().words[k].words[word]);
  return table;
}

/// The facts about the rows of each file that are trained on.
std::vector<CsvTable> training_tables(const DataRequest& request, std::vector<CsvColumn>& columns) {
  std::vector<std::shared_ptr<const CsvCopy>> copies;
  std::vector<CsvTable> tables;
  std::int64_t end = 0;
  for (const std::string& path : array_files(request)) {
    copies.push_back(open_copy(request, path));
    columns = copies.back()->columns();
    end += copies.back()->table().rows;
  }
  const double share = request.data.validation.share;
  std::vector<std::int64_t> samples;
  if (share > 0.0) samples = samples_of_part(end, share, SamplePart::training);
  std::int64_t first = 0;
  for (const auto& copy : copies) {
    std::vector<std::int64_t> rows;
    end = first + copy->table().rows;
    for (auto at = std::ranges::lower_bound(samples, first); at != samples.end() && *at < end; ++at)
      rows.push_back(*at - first);
    tables.push_back(share > 0.0 ? table_of_rows(*copy, rows) : copy->table());
    first = end;
  }
  return tables;
}

/// What the training data say of all columns.
void find_in_csv(const DataRequest& request, FoundInData& found) {
  std::vector<CsvColumn> columns;
  const std::vector<CsvTable> tables = training_tables(request, columns);
  std::vector<std::set<std::string>> words(columns.size());
  std::vector<double> sums(columns.size());
  std::vector<double> counts(columns.size());
  for (const CsvTable& table : tables)
    for (std::size_t k = 0; k < columns.size(); ++k) {
      for (const Word& word : table.words[k].words) words[k].insert(word.text);
      sums[k] += table.sums[k];
      counts[k] += static_cast<double>(table.counts[k]);
    }
  const bool means = request.data.table.fill_missing == "mean";
  const double fill =
      means || request.data.table.fill_missing.empty() ? 0.0 : std::stod(request.data.table.fill_missing);
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const CsvColumn& column = columns[k];
    if (column.target) {
      const std::int64_t classes = request.classes == any_classes ? 0 : request.classes;
      if (column.texts)
        found.classes =
            class_words(words[k], classes, cat(config::printable(request.source.path), ", ", column.name));
      continue;
    }
    if (column.texts && words[k].empty())
      throw UserError(cat(config::printable(request.source.path), ": the column ", shown(column.name),
                          " holds no category: leave it out by data.ignored_columns"));
    found.columns.push_back(column.name);
    found.categories.emplace_back(words[k].begin(), column.texts ? words[k].end() : words[k].begin());
    found.fills.push_back(!means ? fill : counts[k] > 0.0 ? sums[k] / counts[k] : 0.0);
  }
}

std::unique_ptr<Dataset> open_csv(const DataRequest& request) {
  DataConfig data = request.data;
  DatasetUse use = request.use;
  std::map<std::string, File> copies;
  const std::vector<std::string> files = array_files(request);
  if (std::ranges::any_of(files, [&](const std::string& path) { return !use.inflated.contains(path); }))
    copies = converted_files(request);
  for (const auto& [path, copy] : copies) use.inflated[path] = copy.handle();
  const DataRequest own{
      .data = data, .source = request.source, .classes = request.classes, .seed = request.seed, .use = use};
  if (data.found.columns.empty()) find_in_csv(own, data.found);
  return open_arrays(own);
}

constexpr ArrayFormat csv_format = {
    .wanted = [](bool /*training*/) { return "*.csv, *.tsv, *.txt, *.data, *.gz"; },
    .what_is =
        [](const std::string& name, bool /*training*/) {
          static constexpr std::array<std::string_view, 4> endings = {".csv", ".tsv", ".txt", ".data"};
          const std::string inner = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
          return std::ranges::count(endings, small_ending(inner)) > 0 ? InFolder::data : InFolder::other;
        },
    .open = [](const std::string& path, const ArrayOpening& opening) -> std::unique_ptr<ArrayFile> {
      return std::make_unique<CsvFile>(open_copy(opening.request, path), opening.request.data.found);
    },
    .name_arrays =
        [](ArrayNames& names, const ArrayFile& /*file*/, const std::string& /*path*/,
           const DataRequest& /*request*/, MistakeList& /*mistakes*/) {
          names = {"inputs", "targets"};
        }};

}  // namespace

const DataReader csv_reader = [] {
  DataReader reader = array_reader(DataKind::csv, csv_format);
  reader.open = open_csv;
  reader.inflate = converted_files;
  reader.always_inflates = true;
  reader.find = find_in_csv;
  reader.form = nullptr;  // checkpoints keep it
  return reader;
}();

}  // namespace flotilla
