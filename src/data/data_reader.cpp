// SPDX-License-Identifier: Apache-2.0
#include "src/data/data_reader.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

std::string without_blanks_around(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

/// A name a line; "3 cat" is "cat" where all lines begin with the number of their class.
std::vector<std::string> read_names(const std::string& path, std::int64_t classes) {
  refuse_other_kinds(path, FileFormat::text, "a list of class names");
  std::string text = open_data_file(path).text();
  if (text.starts_with(config::utf8_mark)) text.erase(0, config::utf8_mark.size());
  std::istringstream lines(text);
  std::vector<std::string> names;
  std::vector<std::string> behind_numbers;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = without_blanks_around(line);
    if (name.empty()) continue;
    const std::string number = cat(names.size(), " ");
    if (name.starts_with(number)) behind_numbers.push_back(without_blanks_around(name.substr(number.size())));
    if (!config::is_utf8(name))
      throw UserError(cat(path, ": the name of class ", names.size(), " is not UTF-8"));
    names.push_back(name);
  }
  if (std::ssize(names) != classes)
    throw UserError(cat(path, ": names ", names.size(), names.size() == 1 ? " class" : " classes",
                        ", one a line, but model.classes = ", classes,
                        "; correct one of them, or name another file in data.class_names"));
  return behind_numbers.size() == names.size() ? behind_numbers : names;
}

/// The path without the folder of staged copies, which hold no names.
std::string original_path(const DataSourceConfig& source) {
  return source.path.starts_with(source.staged_below) ? source.path.substr(source.staged_below.size())
                                                      : source.path;
}

}  // namespace

const DataReader& reader_of(DataKind kind) {
  const auto* const found =
      std::ranges::find(data_readers, kind, [](const DataReader* reader) { return reader->kind; });
  require(found != data_readers.end(), "nothing reads data.kind = \"", kind, "\"");
  return **found;
}

std::vector<std::string> class_names(const DataConfig& data, std::int64_t classes) {
  if (!data.class_names.empty()) return read_names(data.class_names, classes);
  if (!data.found.classes.empty()) return data.found.classes;
  const auto of_kind = reader_of(data.kind).class_names;
  return of_kind == nullptr ? std::vector<std::string>() : of_kind(data, classes);
}

std::vector<std::string> names_beside(const DataConfig& data, const char* file, std::int64_t classes) {
  const std::filesystem::path path = original_path(data.train);
  const std::string beside = ((is_folder(path) ? path : path.parent_path()) / file).string();
  return is_file(beside) ? read_names(beside, classes) : std::vector<std::string>();
}

}  // namespace flotilla
