// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_list.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <tuple>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/mistake_list.hpp"
#include "src/data/staging/stage_plan.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;
using config::printable;

constexpr std::size_t max_mistakes_told = 10;
constexpr std::int64_t max_files_looked_up = 1000;
constexpr std::string_view list_blanks = " \t";

/// The mistakes of a list: the first of each kind, and the total number.
class ListMistakes {
 public:
  explicit ListMistakes(const ImageList& list) : list_(list) {}

  /// @param begin in the list's text
  void add(std::uint64_t begin, const std::string& text) {
    ++count_;
    if (kept_of_kind_++ < max_mistakes_told) kept_.emplace_back(begin, text);
  }
  void next_kind() { kept_of_kind_ = 0; }
  bool tells_more_of_kind() const { return kept_of_kind_ < max_mistakes_told; }
  bool empty() const { return count_ == 0; }

  /// @param all there may be more that were not looked for, if false
  void throw_if_any(bool all, const std::string& advice) {
    if (empty()) return;
    std::stable_sort(kept_.begin(), kept_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    kept_.resize(std::min(kept_.size(), max_mistakes_told));
    std::string text = cat(list_.source, ": the list has ", all ? "" : "at least ", count_,
                           count_ == 1 ? " mistake:" : " mistakes:");
    for (const auto& [begin, what] : kept_) text += cat("\n  ", list_.line_at(begin), ": ", what);
    if (count_ > kept_.size()) text += cat("\n  and ", count_ - kept_.size(), " more");
    throw UserError(text + advice);
  }

 private:
  const ImageList& list_;
  std::size_t count_ = 0;
  std::size_t kept_of_kind_ = 0;
  std::vector<std::pair<std::uint64_t, std::string>> kept_;
};

std::string read_text(const std::string& path, bool labelled) {
  refuse_other_kinds(
      path, FileFormat::list,
      labelled ? "a list with one image a line: path, white space, label"
               : "a list with one path a line, or an image, whose name ends in .jpg, .jpeg or .png");
  return open_data_file(path).text();
}

/// Reads the lines of list.text from the last part's beginning on.
void parse(const ImageListOptions& options, ImageList& list, ListMistakes& mistakes) {
  const std::string_view text = list.text;
  list.entries.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  std::size_t next = list.parts.back().begin;
  if (text.substr(next).starts_with(config::utf8_mark)) next += config::utf8_mark.size();
  ProgressLine progress("reading the list of images", std::ssize(text), Amount::bytes);
  while (next < text.size()) {
    progress.at(static_cast<std::int64_t>(next));
    std::size_t begin = next;
    std::size_t end = std::min(text.find('\n', begin), text.size());
    next = end + 1;
    while (end > begin && (text[end - 1] == '\r' || list_blanks.find(text[end - 1]) != list_blanks.npos))
      --end;
    while (begin < end && list_blanks.find(text[begin]) != list_blanks.npos) ++begin;
    if (begin == end) continue;
    const std::string_view line = text.substr(begin, end - begin);
    const std::size_t label_begin = line.find_last_of(list_blanks) + 1;
    const std::string_view word = line.substr(label_begin);
    std::int64_t label = 0;
    const auto [stop, failure] = std::from_chars(word.data(), word.data() + word.size(), label);
    const bool is_number = failure == std::errc{} && stop == word.data() + word.size();
    if (!options.labelled && (label_begin == 0 || !is_number)) {
      list.entries.push_back({begin, static_cast<std::uint32_t>(line.size()), 0});
      continue;
    }
    if (label_begin == 0) {
      mistakes.add(begin, cat("must have a path, white space and a label, got ", shown(line)));
      continue;
    }
    if (!is_number) {
      mistakes.add(begin, cat("the last field must be the label, a whole number, got ", shown(word)));
      continue;
    }
    if (!options.labelled) label = 0;
    if (label < 0 || label >= options.classes) {
      mistakes.add(begin, cat("label ", label, " is not in 0 … ", options.classes - 1, " (model.classes = ",
                              options.classes, "); labels count from 0: correct the list or model.classes"));
      continue;
    }
    const std::size_t length = line.find_last_not_of(list_blanks, label_begin - 1) + 1;
    list.entries.push_back({begin, static_cast<std::uint32_t>(length), static_cast<std::int32_t>(label)});
  }
}

void find_duplicates(const ImageList& list, ListMistakes& mistakes) {
  std::vector<std::string> files(list.entries.size());  // "./a.jpg" and "b/../a.jpg" are "a.jpg"
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i] = fs::path(list.path(static_cast<std::int64_t>(i))).lexically_normal().string();
  }
  std::vector<std::uint32_t> order(files.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return files[a] < files[b]; });
  std::vector<std::pair<std::uint32_t, std::uint32_t>> twice;  // and the one before
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (files[order[i]] == files[order[i - 1]]) twice.emplace_back(order[i], order[i - 1]);
  }
  std::sort(twice.begin(), twice.end());
  for (const auto& [later, earlier] : twice) {
    // Finding a line's number reads the list up to there: not for each of many duplicates.
    if (!mistakes.tells_more_of_kind()) {
      mistakes.add(list.entries[later].begin, "");
      continue;
    }
    const std::string_view first = list.written(earlier);
    std::string place = list.line_at(list.entries[earlier].begin);
    if (list.parts.size() == 1) place = "line " + place.substr(place.rfind(':') + 1);
    mistakes.add(list.entries[later].begin,
                 cat(config::quoted(list.written(later)), " stands in ", place, " too",
                     first == list.written(later) ? "" : cat(", as ", config::quoted(first)),
                     "; validation counts each image once: take one of them out"));
  }
}

/// The number of files that were looked up and found.
std::int64_t find_missing(const ImageList& list, ListMistakes& mistakes) {
  const std::int64_t count = std::min(list.size(), max_files_looked_up);
  std::int64_t found = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t i = k * list.size() / count;
    std::error_code error;
    const std::string path = list.path(i);
    const fs::file_status status = fs::status(path, error);
    if (fs::is_regular_file(status)) {
      ++found;
      continue;
    }
    const std::string reason = fs::exists(status)         ? "is not a file"
                               : fs::status_known(status) ? "is missing"
                                                          : "cannot be looked up: " + error.message();
    mistakes.add(list.entries[static_cast<std::size_t>(i)].begin, shown_path(path) + " " + reason);
  }
  return found;
}

}  // namespace

std::string_view ImageList::written(std::int64_t i) const {
  const Entry& entry = entries[static_cast<std::size_t>(i)];
  return std::string_view(text).substr(entry.begin, entry.length);
}

std::string ImageList::path(std::int64_t i) const {
  const std::string_view name = written(i);
  const std::string& folder = is_file() ? part_at(entries[static_cast<std::size_t>(i)].begin).root : root;
  const bool absolute = name.starts_with('/') || folder.empty();
  if (below.empty()) return absolute ? std::string(name) : folder + "/" + std::string(name);
  // The folders that ".." leads through may have no copies.
  return staged_path(below,
                     absolute ? std::string(name) : folder.substr(below.size()) + "/" + std::string(name));
}

std::string ImageList::place(std::int64_t i) const {
  return is_file() ? line_at(entries[static_cast<std::size_t>(i)].begin) + ": " : "";
}

const ImageList::Part& ImageList::part_at(std::uint64_t begin) const {
  const auto behind = std::ranges::upper_bound(parts, begin, {}, &Part::begin);
  return *(behind - 1);
}

std::string ImageList::line_at(std::uint64_t begin) const {
  const Part& part = part_at(begin);
  const std::string_view before = std::string_view(text).substr(part.begin, begin - part.begin);
  return cat(part.source, ":", 1 + std::ranges::count(before, '\n'));
}

namespace {

/// The folder that the paths of a list begin at, and in words how it was found.
std::pair<std::string, std::string> find_root(const std::string& path, const ImageListOptions& options) {
  std::error_code error;
  if (!options.root.empty()) {
    if (!fs::is_directory(options.root, error))
      throw UserError(cat(options.root, ": is not a folder; correct ", options.root_key));
    return {options.root, options.root_key};
  }
  const fs::path folder = fs::path(path).parent_path();
  const fs::path beside = folder / fs::path(path).stem();
  if (fs::is_directory(beside, error)) return {beside.string(), "the folder named like the list"};
  return {folder.empty() ? "." : folder.string(), "the list's own folder"};
}

}  // namespace

ImageList read_image_list(const std::string& path, const ImageListOptions& options) {
  ImageList list;
  list.source = path;
  list.below = options.below;
  ListMistakes mistakes(list);
  std::error_code error;
  std::string how;
  for (const std::string& file : fs::is_directory(path, error) ? std::vector{path} : find_data_files(path)) {
    const std::string text = read_text(file, options.labelled);
    std::string root;
    std::tie(root, how) = find_root(file, options);
    if (!list.text.empty() && !list.text.ends_with('\n')) list.text += '\n';
    list.parts.push_back({.begin = list.text.size(), .source = file, .root = root});
    list.text += text;
    parse(options, list, mistakes);
  }
  const std::string& root = list.parts.front().root;
  if (list.entries.empty() && mistakes.empty()) {
    throw UserError(cat(path, ": lists no images; write one per line: path",
                        options.labelled ? ", white space, label" : ""));
  }
  mistakes.next_kind();
  if (options.unique) find_duplicates(list, mistakes);
  mistakes.next_kind();
  ListMistakes missing = mistakes;
  const std::int64_t found = find_missing(list, missing);
  const bool tell_missing = !options.missing_allowed || (found == 0 && list.size() > 0);
  const std::string advice =
      cat("\n  relative paths begin at ", root, " (", how, ")",
          options.root_key.empty() ? "" : cat("; ", options.root_key, " names another folder"));
  (tell_missing ? missing : mistakes)
      .throw_if_any(!tell_missing || list.size() <= max_files_looked_up, tell_missing ? advice : "");
  list.description = cat(list.size(), " images of ", path, ", paths from ", root, " (", how, ")",
                         list.parts.size() > 1 ? cat(", of ", list.parts.size(), " lists") : "");
  return list;
}

}  // namespace flotilla
