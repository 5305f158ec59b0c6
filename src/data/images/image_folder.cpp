// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_folder.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/find_data_files.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

constexpr int deepest = 16;
constexpr std::size_t most_names_told = 5;

[[noreturn]] void throw_unreadable(const std::string& path, const std::error_code& error) {
  throw UserError(cat(config::printable(path), ": this folder cannot be read: ", error.message(),
                      "; check the path and the right to read it"));
}

/// Calls `visit` for each entry of a folder that is not hidden.
template <class Visit>
void each_entry(const std::string& path, const Visit& visit) {
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with('.')) visit(name, *at);
  }
  if (error) throw_unreadable(path, error);
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;  // a link to nowhere is none
  return entry.is_directory(ignored);
}

/// The class folders in byte order; `others` counts what lies beside them.
std::vector<std::string> classes_of(const std::string& path, std::int64_t& others) {
  std::vector<std::string> names;
  each_entry(path, [&](const std::string& name, const fs::directory_entry& entry) {
    if (is_folder(entry)) {
      names.push_back(name);
    } else {
      ++others;
    }
  });
  std::sort(names.begin(), names.end());
  return names;
}

/// The images below `folder`, as paths that begin with it.
void collect(const std::string& folder, int depth, std::vector<std::string>& images, std::int64_t& others) {
  if (depth > deepest) {
    throw UserError(cat(config::printable(folder), ": is more than ", deepest,
                        " folders deep; is there a link that leads back?"));
  }
  each_entry(folder, [&](const std::string& name, const fs::directory_entry& entry) {
    std::string path = folder;
    if (!path.ends_with('/')) path += '/';
    path += name;
    if (is_folder(entry)) {
      collect(path, depth + 1, images, others);
    } else if (has_image_ending(name)) {
      images.push_back(std::move(path));
    } else {
      ++others;
    }
  });
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_names_told); ++i)
    text += (i == 0 ? "" : ", ") + config::quoted(names[i]);
  return names.size() > most_names_told ? cat(text, " and ", names.size() - most_names_told, " more") : text;
}

std::vector<std::string> only_in(const std::vector<std::string>& these,
                                 const std::vector<std::string>& others) {
  std::vector<std::string> names;
  std::set_difference(these.begin(), these.end(), others.begin(), others.end(), std::back_inserter(names));
  return names;
}

void check_names(const std::string& path, const std::vector<std::string>& classes, const std::string& other) {
  std::error_code error;
  if (other.empty() || !fs::is_directory(other, error)) return;
  std::int64_t ignored = 0;
  const std::vector<std::string> wanted = classes_of(other, ignored);
  if (classes == wanted) return;
  const std::vector<std::string> missing = only_in(wanted, classes);
  const std::vector<std::string> unknown = only_in(classes, wanted);
  throw UserError(cat(path, ": its class folders are not those of ", other,
                      missing.empty() ? "" : "; missing: " + names_text(missing),
                      unknown.empty() ? "" : "; only here: " + names_text(unknown),
                      "; both must have the same, a class without images an empty one"));
}

void add(ImageList& list, const std::string& image, std::int32_t label) {
  list.entries.push_back({list.text.size(), static_cast<std::uint32_t>(image.size()), label});
  list.text += image;
}

std::string text_of_others(std::int64_t others) {
  return others == 0 ? "" : cat(", ", others, others == 1 ? " other file" : " other files", " skipped");
}

}  // namespace

bool has_image_ending(const std::string& name) {
  static constexpr std::array<std::string_view, 5> endings = {".jpg", ".jpeg", ".png", ".jpe", ".jfif"};
  return std::ranges::find(endings, small_ending(name)) != endings.end();
}

std::vector<std::string> class_folders(const std::string& path) {
  std::int64_t others = 0;
  return classes_of(path, others);
}

ImageList list_unlabelled_images(const std::vector<std::string>& files_and_folders) {
  ImageList list;
  std::int64_t others = 0;
  std::vector<std::string> images;
  for (const std::string& path : files_and_folders) {
    std::error_code error;
    images = {path};
    if (fs::is_directory(path, error)) {
      images.clear();
      collect(path, 1, images, others);
      std::sort(images.begin(), images.end());
      if (images.empty())
        throw UserError(
            cat(config::printable(path), ": holds no image (*.jpg, *.jpeg, *.png); check the path"));
    } else if (!fs::exists(path, error)) {
      throw UserError(cat(config::printable(path), ": is missing; check the path"));
    }
    for (const std::string& image : images) add(list, image, 0);
  }
  list.source = files_and_folders.front();
  list.description =
      cat(list.size(), list.size() == 1 ? " image: " : " images: ", names_text(files_and_folders),
          text_of_others(others));
  return list;
}

ImageList read_image_folder(const std::string& path, const ImageFolderOptions& options) {
  std::int64_t others = 0;
  const std::vector<std::string> classes = classes_of(path, others);
  if (classes.empty()) {
    throw UserError(cat(
        path, ": has no folder for a class; the images of each class lie in a folder of their own, as ", path,
        "/cat/1.jpg: name the folder that these are in, or give a list of images and labels "
        "(data.kind = \"image-list\")"));
  }
  check_names(path, classes, options.same_as);
  if (std::ssize(classes) != options.classes) {
    throw UserError(cat(path, ": has ", classes.size(), " class folders (", names_text(classes),
                        "), but model.classes = ", options.classes, "; set model.classes = ", classes.size(),
                        " or name the folder that the class folders are in"));
  }
  ImageList list;
  list.source = path;
  list.root = path;
  std::vector<std::string> without;
  std::vector<std::string> images;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    images.clear();
    collect(path + "/" + classes[label], 1, images, others);
    std::sort(images.begin(), images.end());
    if (images.empty()) without.push_back(classes[label]);
    for (const std::string& image : images)
      add(list, image.substr(path.size() + 1), static_cast<std::int32_t>(label));
  }
  if (list.entries.empty() || (!without.empty() && !options.empty_classes)) {
    throw UserError(cat(path, ": no image (*.jpg, *.jpeg, *.png) for class ", names_text(without),
                        "; every class needs one: add images or remove the folder"));
  }
  list.description =
      cat(list.size(), " images of ", classes.size(), " classes in ", path,
          without.empty() ? "" : cat(", no image of ", names_text(without)), text_of_others(others));
  return list;
}

}  // namespace flotilla
