// SPDX-License-Identifier: Apache-2.0
#include "src/config/paths.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "kernels/error.hpp"
#include "src/config/keys.hpp"

namespace flotilla::config {
namespace {

namespace fs = std::filesystem;

fs::path current_folder() {
  std::error_code error;
  const fs::path folder = fs::current_path(error);
  if (error) throw UserError("the current folder cannot be determined: " + error.message());
  return folder;
}

/// Removes "." and ".." and leaves links as they were written, except for a ".." after a link to a folder:
/// that means the folder above the link's target, as it does for every program that opens the path as it
/// stands.
std::string absolute_path(const fs::path& path, const fs::path& folder) {
  const fs::path whole = folder / path;
  std::string text = whole.lexically_normal().string();
  std::error_code error;
  if (std::ranges::find(whole, fs::path("..")) != whole.end() && fs::exists(whole, error) &&
      !fs::equivalent(whole, text, error))
    text = fs::canonical(whole, error).string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

/// The value of a variable of the environment. @throws UserError naming `written` if there is none
std::string variable(const std::string& name, const std::string& written) {
  const char* const value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return value;
  throw UserError(cat(config::quoted(written), " in a path needs the environment variable ", name,
                      ", which is ", value == nullptr ? "not set" : "empty",
                      ": set it, or write the folder out ($$ for a $ in a name)"));
}

/// The path with "~", $NAME and ${NAME} replaced by their values.
std::string expanded(const std::string& path) {
  static constexpr std::string_view letters = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string text;
  std::size_t at = 0;
  if (path[0] == '~') {
    if (path.size() > 1 && path[1] != '/')
      throw UserError(cat(config::quoted(path),
                          ": only ~ itself stands for a folder; write the folder out, or ./", path,
                          " for one of that name"));
    text = variable("HOME", "~");
    at = 1;
  }
  while (at < path.size()) {
    const std::size_t dollar = std::min(path.find('$', at), path.size());
    text.append(path, at, dollar - at);
    if (dollar == path.size()) break;
    if (path.compare(dollar + 1, 1, "$") == 0) {
      text += '$';
      at = dollar + 2;
      continue;
    }
    const bool braces = path.compare(dollar + 1, 1, "{") == 0;
    const std::size_t begin = dollar + 1 + (braces ? 1 : 0);
    const bool is_name = begin < path.size() && letters.find(path[begin]) != std::string_view::npos;
    std::size_t end = begin;
    while (is_name && end < path.size() &&
           (letters.find(path[end]) != std::string_view::npos || (path[end] >= '0' && path[end] <= '9')))
      ++end;
    if (braces && (!is_name || path.compare(end, 1, "}") != 0))
      throw UserError(cat(config::quoted(path), ": after ${ a name and } are expected, as in ${HOME}"));
    at = braces ? end + 1 : end;
    text += is_name ? variable(path.substr(begin, end - begin), path.substr(dollar, at - dollar)) : "$";
  }
  return text;
}

/// The current folder and the deck's, which may be in them, need not be text.
void check_resolved_paths(const Config& config) {
  for (const Key& key : all_keys()) {
    if (key.path_role == PathRole::none) continue;
    const auto path = std::get<std::string>(key.field.read(config));
    if (!is_utf8(path))
      throw UserError(cat(key.path, " is in ", config::quoted(path),
                          ", which is not UTF-8 as checkpoints and metrics are: rename that folder, or give "
                          "another path"));
  }
}

}  // namespace

std::optional<std::int64_t> step_to_resume(const std::string& resume) {
  constexpr std::string_view begin = "step-";
  if (!resume.starts_with(begin)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = resume.data() + resume.size();
  const auto [stop, error] = std::from_chars(resume.data() + begin.size(), end, step);
  return error == std::errc() && stop == end && step >= 0 ? std::optional(step) : std::nullopt;
}

void resolve_paths(const std::string& deck_path, bool literal, const DeckValues& given, Config& config,
                   Mistakes& mistakes) {
  const fs::path here = current_folder();
  const fs::path deck_folder = (here / deck_path).parent_path();
  const bool names_a_file =
      !config.run.resumes_newest() && !config.run.never_resumes() && !step_to_resume(config.run.resume);
  for (const Key& key : all_keys()) {
    const Given* value = given.find(key.path);
    if (key.path_role == PathRole::none || value == nullptr) continue;
    const auto& path = std::get<std::string>(value->value);
    if (path.empty() || (key.path == "run.resume" && !names_a_file)) continue;
    const bool beside_deck = key.path_role == PathRole::input && !value->origin.from_override();
    try {
      const std::string meant = literal && !value->origin.from_override() ? path : expanded(path);
      key.field.write(config, absolute_path(meant, beside_deck ? deck_folder : here));
    } catch (const UserError& error) {
      mistakes.add(value->origin, cat(key.path, ": ", error.what()));
    }
  }
  if (given.find("run.output") == nullptr) {
    config.run.output = absolute_path(fs::path("runs") / fs::path(deck_path).stem(), here);
  }
  check_resolved_paths(config);
}

}  // namespace flotilla::config
