// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla {

/// A field of a record, without its quotes; blanks around an unquoted one are left out.
struct CsvField {
  std::string_view text;
  bool quoted = false;
};

/// The records of a text in RFC 4180's form: fields between delimiters, in quotes where they hold delimiters,
/// quotes (written twice) or line ends, which are \n or \r\n. Empty lines are not records.
class CsvRecords {
 public:
  /// @param text whole records, which must outlive the object  @param line the number of its first line
  CsvRecords(std::string_view text, char delimiter, std::int64_t line)
      : text_(text), delimiter_(delimiter), next_line_(line) {}

  /// The fields of the next record, valid until the next call; false at the end.
  /// @throws UserError with a reason, which names neither file nor line, for quotes at other places
  bool next(std::vector<CsvField>& fields);
  std::string_view rest() const { return text_.substr(at_); }  ///< Behind the record.
  std::int64_t line() const { return line_; }                  ///< The line at which the record begins.
  std::int64_t next_line() const { return next_line_; }        ///< The line after the record.

 private:
  CsvField quoted_field();
  CsvField plain_field();

  std::string_view text_;
  char delimiter_;
  std::size_t at_ = 0;
  std::int64_t line_ = 0;
  std::int64_t next_line_;
  std::deque<std::string> unescaped_{};  ///< Fields of this record that had quotes in them
  std::size_t used_ = 0;
};

/// Some records of a file, with the number of their first line.
struct CsvPiece {
  std::string_view text;
  std::int64_t line = 1;
};

/// Reads a file, plain or compressed by gzip, once from its start to its end, in pieces of whole records
/// whose bounds depend on nothing but the file.
/// @param use is called with the next pieces, which are valid until it returns; false ends the reading
/// @throws UserError as reading does
void read_csv_pieces(const File& file, const std::function<bool(const std::vector<CsvPiece>&)>& use);

enum class CsvNumber { good, not_finite, bad };

/// Parses a number in C's form; a leading plus is allowed.
CsvNumber parse_csv_number(std::string_view text, double& number);

/// "3.14" of "3,14"; empty where the text is no number with a decimal comma.
std::string with_decimal_point(std::string_view text);

}  // namespace flotilla
