// SPDX-License-Identifier: Apache-2.0
#include "src/data/find_data_files.hpp"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <ranges>
#include <system_error>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/mistake_list.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

void LeftOut::add(std::string_view what, std::string_view example, std::string_view advice,
                  std::int64_t count) {
  auto kind = std::ranges::find(kinds_, what, &Kind::what);
  if (kind == kinds_.end())
    kind = kinds_.insert(kind, {std::string(what), std::string(example), std::string(advice)});
  kind->count += count;
}

void LeftOut::add(const LeftOut& more) {
  for (const Kind& kind : more.kinds_) add(kind.what, kind.example, kind.advice, kind.count);
}

std::string LeftOut::text() const {
  std::string text;
  for (const Kind& kind : kinds_)
    text += cat(text.empty() ? "; left out: " : ", ", kind.count, " ", kind.what,
                kind.count == 1 ? " (" : "s (", shown(kind.example), kind.count == 1 ? "" : " …",
                kind.advice.empty() ? "" : "; ", kind.advice, ")");
  return text;
}

std::string LeftOut::lines() const {
  std::string text;
  for (const Kind& kind : kinds_)
    text += cat(kind.count, '\t', kind.what, '\t', config::printable(kind.example), '\t', kind.advice, '\n');
  return text;
}

bool LeftOut::add_line(std::string_view line) {
  std::array<std::string_view, 4> fields;
  for (std::string_view& field : fields) {
    field = line.substr(0, line.find('\t'));
    line.remove_prefix(std::min(field.size() + 1, line.size()));
  }
  std::int64_t count = 0;
  const auto [stop, error] = std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), count);
  if (error != std::errc() || stop != fields[0].data() + fields[0].size()) return false;
  add(fields[1], fields[2], fields[3], count);
  return true;
}

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t max_names = 1000000;

bool is_digit(char letter) {
  return std::isdigit(static_cast<unsigned char>(letter)) != 0;
}

/// Takes the digits at the start off, without leading zeros.
std::string_view take_digits(std::string_view& text) {
  std::size_t size = 0;
  while (size < text.size() && is_digit(text[size])) ++size;
  std::string_view digits = text.substr(0, size);
  text.remove_prefix(size);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

/// Leaves those that are data.
void keep_data(std::vector<std::string>& files, const WhatIs& what_is, LeftOut& left_out) {
  std::erase_if(files, [&](const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    const InFolder is = what_is.of ? what_is.of(name) : InFolder::data;
    if (is == InFolder::other) left_out.add("other file", name);
    return is != InFolder::data;
  });
}

std::vector<std::string> files_of_folder(const std::string& path, const WhatIs& what_is, LeftOut& left_out) {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    // Names with "_" in front are marks of the tools that write such folders, as _SUCCESS.
    if (is_of_system(name) || name.starts_with('_'))
      left_out.add("hidden or system file", name);
    else if (is_file(at->path().string()))
      files.push_back(at->path().string());
    else
      left_out.add(is_folder(at->path().string()) ? "folder" : "link to nowhere", name);
  }
  if (error) throw UserError(cat(path, ": this folder cannot be read: ", error.message()));
  keep_data(files, what_is, left_out);
  if (files.empty()) {
    const FileKind kind = kind_of_path(path);
    throw UserError(cat(path, ": this folder holds no ", what_is.wanted, left_out.text(), "; ",
                        kind.advice.starts_with("data.kind") ? cat("it is ", kind.name, ": ", kind.advice)
                                                             : std::string("name one that does")));
  }
  return files;
}

/// Frees what glob() found.
struct Matches {
  glob_t found{};
  Matches() = default;
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  ~Matches() { globfree(&found); }
};

/// The length of the longest beginning of `path`, up to a '/', that names a folder. Its letters stand for
/// themselves, so that a pattern matches below a folder of any name.
std::size_t folder_length(const std::string& path) {
  std::size_t end = path.rfind('/');
  while (end != path.npos && end > 0 && !is_folder(path.substr(0, end))) end = path.rfind('/', end - 1);
  return end == path.npos ? 0 : end + 1;
}

/// For glob(): each letter stands for itself.
std::string literal(std::string_view text) {
  std::string escaped;
  for (const char letter : text) escaped += {'\\', letter};
  return escaped;
}

std::vector<std::string> matching_files(const std::string& pattern, const WhatIs& what_is,
                                        LeftOut& left_out) {
  Matches matches;
  const std::size_t folder = folder_length(pattern);
  const std::string escaped = literal(std::string_view(pattern).substr(0, folder)) + pattern.substr(folder);
  const int code = glob(escaped.c_str(), GLOB_ERR, nullptr, &matches.found);
  if (code == GLOB_NOSPACE) throw LibraryError("glob", "out of memory");
  if (code == GLOB_ABORTED) throw UserError(cat(pattern, ": a folder on its way cannot be read"));
  std::vector<std::string> files;
  for (std::size_t k = 0; k < matches.found.gl_pathc; ++k) {
    const std::string path = matches.found.gl_pathv[k];
    if (is_file(path)) files.push_back(path);
  }
  if (files.empty()) throw UserError(cat(pattern, ": no file matches; check the path and its wildcards"));
  LeftOut others;
  std::vector<std::string> data = files;
  keep_data(data, what_is, others);
  if (data.empty()) return files;  // data of an unusual name
  left_out.add(others);
  return data;
}

std::optional<std::int64_t> number_of(std::string_view text) {
  constexpr std::size_t max_digits = 15;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || text.size() > max_digits) return {};
  return value;
}

bool is_letter(std::string_view text) {
  return text.size() == 1 && std::isalpha(static_cast<unsigned char>(text[0])) != 0;
}

/// The digits as bash writes them: as wide as the wider limit where one of the two begins with a needless 0.
std::string digits_of(std::int64_t number, std::size_t width) {
  const std::string digits = std::to_string(std::abs(number));
  const std::size_t sign = number < 0 ? 1 : 0;
  return std::string(sign, '-') + std::string(width - std::min(width, digits.size() + sign), '0') + digits;
}

/// The expansion of "first..last" or "first..last..step" between two braces; nothing if it is no range.
std::vector<std::string> range_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;; rest.remove_prefix(parts.back().size() + 2)) {
    parts.push_back(rest.substr(0, rest.find("..")));
    if (parts.back().size() == rest.size()) break;
  }
  if (parts.size() < 2 || parts.size() > 3) return {};
  const bool letters = is_letter(parts[0]) && is_letter(parts[1]);
  const auto limit = [&](std::string_view part) { return letters ? std::int64_t{part[0]} : number_of(part); };
  const std::optional<std::int64_t> first = limit(parts[0]);
  const std::optional<std::int64_t> last = limit(parts[1]);
  const std::optional<std::int64_t> step = parts.size() == 3 ? number_of(parts[2]) : 1;
  if (!first || !last || !step) return {};
  const std::int64_t by = std::max<std::int64_t>(std::abs(*step), 1);
  const std::int64_t count = std::abs(*last - *first) / by + 1;
  if (count > max_names) throw UserError(cat("{", text, "} stands for more than ", max_names, " files"));
  const auto is_padded = [](std::string_view digits) {
    if (digits.starts_with('-')) digits.remove_prefix(1);
    return digits.size() > 1 && digits.starts_with('0');
  };
  const bool padded = !letters && (is_padded(parts[0]) || is_padded(parts[1]));
  const std::size_t width = padded ? std::max(parts[0].size(), parts[1].size()) : 0;
  std::vector<std::string> found;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t value = *last < *first ? *first - k * by : *first + k * by;
    found.push_back(letters ? std::string(1, static_cast<char>(value)) : digits_of(value, width));
  }
  return found;
}

/// The texts between the commas that are in no inner braces.
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char letter : text) {
    depth += letter == '{' ? 1 : letter == '}' ? -1 : 0;
    if (letter == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += letter;
  }
  return parts;
}

/// The position of the brace that closes the one at `open`; npos: there is none.
std::size_t close_of(std::string_view pattern, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < pattern.size(); ++at) {
    depth += pattern[at] == '{' ? 1 : pattern[at] == '}' ? -1 : 0;
    if (depth == 0) return at;
  }
  return pattern.npos;
}

}  // namespace

bool comes_before(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view left = take_digits(a);
      const std::string_view right = take_digits(b);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else {
      if (a.front() != b.front()) {
        return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front());
      }
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;  // day_1 and day_01
}

std::string small_ending(const std::string& name) {
  return config::lower_case(fs::path(name).extension().string());
}

bool is_of_system(const std::string& name) {
  static constexpr std::array<std::string_view, 6> names = {"__MACOSX", "Thumbs.db",  "desktop.ini",
                                                            "@eaDir",   "lost+found", "$RECYCLE.BIN"};
  return name.starts_with('.') || std::ranges::find(names, name) != names.end();
}

std::vector<std::string> expand_braces(const std::string& pattern) {
  const std::size_t open = pattern.find('{');
  if (open == pattern.npos) return {pattern};
  const std::size_t close = close_of(pattern, open);
  std::vector<std::string> inside;
  if (close != pattern.npos) {
    const std::string_view text = std::string_view(pattern).substr(open + 1, close - open - 1);
    const std::vector<std::string> parts = split_list(text);
    if (parts.size() == 1)
      inside = range_of(text);
    else
      for (const std::string& part : parts)
        std::ranges::move(expand_braces(part), std::back_inserter(inside));
  }
  // A literal brace.
  const std::size_t end = inside.empty() ? open + 1 : close + 1;
  if (inside.empty()) inside = {"{"};
  const std::vector<std::string> rest = expand_braces(pattern.substr(end));
  if (inside.size() * rest.size() > static_cast<std::size_t>(max_names))
    throw UserError(cat(pattern, ": stands for more than ", max_names, " files"));
  std::vector<std::string> names;
  for (const std::string& middle : inside)
    for (const std::string& behind : rest) names.push_back(pattern.substr(0, open) + middle + behind);
  return names;
}

std::vector<std::string> find_data_files(const std::string& path, const WhatIs& what_is, LeftOut* left_out) {
  std::error_code error;
  const bool is_there = fs::exists(path, error);
  if (is_there && !is_folder(path)) return {path};
  const std::size_t folder = is_there ? path.size() : folder_length(path);
  LeftOut not_read;
  std::vector<std::string> all;
  for (const std::string& below : expand_braces(path.substr(folder))) {
    const std::string name = path.substr(0, folder) + below;
    std::vector<std::string> files = {name};
    if (is_folder(name))
      files = files_of_folder(name, what_is, not_read);
    else if (name.find_first_of("*?[") != name.npos && !fs::exists(name, error))
      files = matching_files(name, what_is, not_read);
    std::ranges::sort(files, comes_before);
    std::ranges::move(files, std::back_inserter(all));
  }
  std::vector<std::string> sorted = all;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw UserError(cat(path, ": names ", *twice, " twice; let it name each file once"));
  if (left_out != nullptr) left_out->add(not_read);
  return all;
}

}  // namespace flotilla
