// SPDX-License-Identifier: Apache-2.0
#include "src/data/find_data_files.hpp"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

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

bool is_file(const std::string& path) {
  std::error_code ignored;  // a link to nowhere is none
  return fs::is_regular_file(path, ignored);
}

std::vector<std::string> files_of_folder(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    // Names with "_" in front are marks of the tools that write such folders, as _SUCCESS.
    if (!name.starts_with('.') && !name.starts_with('_') && is_file(at->path().string()))
      files.push_back(at->path().string());
  }
  if (error) throw UserError(cat(path, ": this folder cannot be read: ", error.message()));
  if (files.empty()) throw UserError(cat(path, ": this folder holds no files; name one that does"));
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

std::vector<std::string> matching_files(const std::string& pattern) {
  Matches matches;
  const int code = glob(pattern.c_str(), GLOB_ERR, nullptr, &matches.found);
  if (code == GLOB_NOSPACE) throw LibraryError("glob", "out of memory");
  if (code == GLOB_ABORTED) throw UserError(cat(pattern, ": a folder on its way cannot be read"));
  std::vector<std::string> files;
  for (std::size_t k = 0; k < matches.found.gl_pathc; ++k) {
    const std::string path = matches.found.gl_pathv[k];
    if (is_file(path)) files.push_back(path);
  }
  if (files.empty()) throw UserError(cat(pattern, ": no file matches; check the path and its wildcards"));
  return files;
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

std::vector<std::string> find_data_files(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files;
  if (fs::is_directory(path, error)) {
    files = files_of_folder(path);
  } else if (!fs::exists(path, error) && path.find_first_of("*?[") != std::string::npos) {
    files = matching_files(path);
  } else {
    return {path};
  }
  std::sort(files.begin(), files.end(), comes_before);
  return files;
}

}  // namespace flotilla
