// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/csv_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>
#include <system_error>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/files/gzip_reader.hpp"

namespace flotilla {

namespace {

constexpr std::size_t csv_piece_bytes = std::size_t{1} << 20;
constexpr std::size_t max_csv_pieces = 16;  // read at once

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

bool CsvRecords::next(std::vector<CsvField>& fields) {
  fields.clear();
  used_ = 0;
  while (at_ < text_.size() && (text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n")) {
    at_ += text_[at_] == '\n' ? 1 : 2;
    ++next_line_;
  }
  if (at_ == text_.size()) return false;
  line_ = next_line_;
  for (;;) {
    std::size_t begin = at_;
    while (begin < text_.size() && text_[begin] != delimiter_ &&
           (text_[begin] == ' ' || text_[begin] == '\t'))
      ++begin;
    const bool quoted = begin < text_.size() && text_[begin] == '"';
    if (quoted) at_ = begin;
    fields.push_back(quoted ? quoted_field() : plain_field());
    if (at_ == text_.size()) break;
    if (text_[at_++] == delimiter_) continue;
    break;  // a line feed
  }
  ++next_line_;
  return true;
}

/// Leaves at_ at the delimiter, the line feed or the end of the text after the field.
CsvField CsvRecords::quoted_field() {
  std::size_t begin = ++at_;
  std::string* whole = nullptr;
  for (;;) {
    const std::size_t quote = text_.find('"', at_);
    if (quote == text_.npos)
      throw UserError("a quote is opened and not closed: close it, or write a quote inside a field twice");
    if (quote + 1 == text_.size() || text_[quote + 1] != '"') {
      at_ = quote + 1;
      break;
    }
    if (whole == nullptr) {
      if (used_ == unescaped_.size()) unescaped_.emplace_back();
      whole = &unescaped_[used_++];
      whole->clear();
    }
    whole->append(text_, begin, quote + 1 - begin);
    begin = at_ = quote + 2;
  }
  const std::string_view rest = text_.substr(begin, at_ - 1 - begin);
  if (whole != nullptr) whole->append(rest);
  const std::string_view text = whole == nullptr ? rest : std::string_view(*whole);
  next_line_ += std::ranges::count(text, '\n');
  while (at_ < text_.size() && text_[at_] != delimiter_ && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  if (text_.substr(at_, 2) == "\r\n" || text_.substr(at_) == "\r") ++at_;
  if (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n')
    throw UserError("text stands behind a quoted field: write a quote inside a field twice");
  return {text, true};
}

CsvField CsvRecords::plain_field() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n') ++at_;
  std::string_view text = text_.substr(begin, at_ - begin);
  if (text.ends_with('\r') && (at_ == text_.size() || text_[at_] == '\n')) text.remove_suffix(1);
  if (text.find_first_of("\"\r") != text.npos)
    throw UserError(
        text.find('"') == text.npos
            ? "a carriage return stands without a line feed: convert the line ends (tr '\\r' '\\n')"
            : "a quote stands inside a field that begins without one: put the field in quotes, and "
              "write quotes inside it twice");
  return {without_blanks(text), false};
}

void read_csv_pieces(const File& file, const std::function<bool(const std::vector<CsvPiece>&)>& use) {
  std::optional<GzipReader> gzip;
  if (GzipReader::recognises(file)) gzip.emplace(file);
  std::int64_t at = 0;
  const auto read = [&](std::span<std::byte> to) {
    const std::size_t got = gzip ? gzip->read(to) : file.read_some(at, to);
    at += static_cast<std::int64_t>(got);
    return got;
  };
  std::vector<char> buffer;
  std::size_t kept = 0;  // bytes of a record that is not complete
  std::int64_t line = 1;
  for (bool ended = false, first = true; !ended; first = false) {
    buffer.resize(kept + max_csv_pieces * csv_piece_bytes);
    const std::size_t got = read(std::as_writable_bytes(std::span(buffer).subspan(kept)));
    ended = kept + got < buffer.size();
    std::string_view rest(buffer.data(), kept + got);
    if (first && rest.starts_with(config::utf8_mark)) rest.remove_prefix(config::utf8_mark.size());
    std::vector<CsvPiece> pieces;
    // A line feed ends a record where an even number of quotes precedes it.
    bool in_quotes = false;
    std::size_t begin = 0;  // of the piece
    std::size_t end = 0;    // of the last record that ended
    std::int64_t lines = 0;
    std::int64_t lines_to_end = 0;
    const auto cut = [&](std::size_t where) {
      if (where > begin) pieces.push_back({rest.substr(begin, where - begin), line});
      begin = where;
      line += lines_to_end;
      lines = lines_to_end = 0;
    };
    for (std::size_t i = 0; i < rest.size(); ++i) {
      if (rest[i] == '"') in_quotes = !in_quotes;
      if (rest[i] != '\n') continue;
      ++lines;
      if (in_quotes) continue;
      end = i + 1;
      lines_to_end = lines;
      if (end - begin >= csv_piece_bytes) cut(end);
    }
    const bool too_long = !ended && end == 0;
    cut(ended || too_long ? rest.size() : end);
    if (!pieces.empty() && !use(pieces)) return;
    if (too_long)
      throw UserError(cat(file.name(), ":", line, ": the record is longer than 16 MiB: is a quote missing?"));
    const std::string tail(rest.substr(begin));
    std::ranges::copy(tail, buffer.begin());
    kept = tail.size();
  }
  if (gzip) warn_of_trailing_bytes(file.name(), gzip->trailing_bytes());
}

CsvNumber parse_csv_number(std::string_view text, double& number) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return CsvNumber::bad;
  if (error == std::errc::result_out_of_range) number = std::strtod(std::string(text).c_str(), nullptr);
  return std::isfinite(number) ? CsvNumber::good : CsvNumber::not_finite;
}

std::string with_decimal_point(std::string_view text) {
  std::string number(text);
  std::ranges::replace(number, ',', '.');
  double ignored = 0.0;
  const bool is_one = std::ranges::count(text, ',') == 1;
  return is_one && parse_csv_number(number, ignored) == CsvNumber::good ? number : "";
}

}  // namespace flotilla
