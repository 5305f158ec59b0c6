// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/data/arrays/array.hpp"
#include "src/data/data_reader.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// A column that is read.
struct CsvColumn {
  std::string name;
  std::size_t field = 0;  ///< Its place in a record
  bool texts = false;     ///< Categories or labels; false: numbers
  bool target = false;
};

/// The texts of a column, in the order in which they were seen first.
struct CsvWords {
  std::unordered_map<std::string, std::size_t> numbers{};
  std::vector<Word> words{};

  /// The number of a text, which is added where it is new. @param place where it stands, if it is
  std::size_t number_of(std::string_view text, const std::function<std::string()>& place);
};

/// Facts about all rows of a copy: their number, the texts, and the sums of numbers.
struct CsvTable {
  std::int64_t rows = 0;
  std::vector<CsvWords> words{};       ///< Texts of each column
  std::vector<double> sums{};          ///< Sum of each column's numbers that are not missing
  std::vector<std::int64_t> counts{};  ///< Their number
};

/// The columns of inputs: those of the training data, in their order, or by the keys; by the header of `path`
/// where neither names them. @throws UserError where the file cannot be read, or has no such columns
std::vector<std::string> input_columns(const DataRequest& request, const std::string& path);

/// The numbers of a CSV file in a nameless one, from which samples are read in any order: for CsvCopy.
/// @param inputs the columns of inputs  @throws UserError: the first mistakes of all lines at once
File converted_csv(const std::string& path, const DataRequest& request,
                   const std::vector<std::string>& inputs);

/// The copy of a file, as converted_csv() makes it.
class CsvCopy {
 public:
  CsvCopy(std::string path, File copy);

  const std::string& path() const { return path_; }
  const CsvTable& table() const { return table_; }
  const std::vector<CsvColumn>& columns() const { return columns_; }
  /// Reads stored rows, one double for each of columns().
  void read(std::int64_t first, std::int64_t count, std::vector<double>& rows) const;
  void will_read(std::int64_t first, std::int64_t count) const {
    file_.will_read(first * row_bytes(), count * row_bytes());
  }

 private:
  std::int64_t row_bytes() const { return std::ssize(columns_) * static_cast<std::int64_t>(sizeof(double)); }

  std::string path_;
  UnchangedFile file_;
  std::vector<CsvColumn> columns_{};
  CsvTable table_{};
};

}  // namespace flotilla
