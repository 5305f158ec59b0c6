// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/find_data_files.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

constexpr int deepest = 16;
constexpr std::size_t max_names_told = 5;

[[noreturn]] void throw_unreadable(const std::string& path, const std::error_code& error) {
  throw UserError(cat(config::printable(path), ": this folder cannot be read: ", error.message(),
                      "; check the path and the right to read it"));
}

/// Calls `visit` for each entry of a folder that is neither hidden nor put there by a system.
template <class Visit>
void each_entry(const std::string& path, LeftOut& left_out, const Visit& visit) {
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (is_of_system(name))
      left_out.add("hidden or system file", name);
    else
      visit(name, *at);
  }
  if (error) throw_unreadable(path, error);
}

bool leads_to_folder(const fs::directory_entry& entry) {
  std::error_code ignored;  // a dangling link is no folder
  return entry.is_directory(ignored);
}

/// Looks into files, but not into all of many, for images under other names.
void leave_out(const std::string& path, const std::string& name, std::int64_t& looked_into,
               LeftOut& left_out) {
  constexpr std::int64_t max_looked_into = 1000;
  std::string_view what = foreign_image_of(small_ending(name));
  std::string_view advice = what.empty() ? "" : image_advice;
  std::error_code ignored;
  if (what.empty() && ++looked_into <= max_looked_into && fs::is_regular_file(path, ignored)) {
    try {
      const FileKind kind = kind_of_path(path);
      if (kind.is_image && !kind.gzipped) {
        what = kind.name.substr(kind.name.find(' ') + 1);
        const bool is_read = kind.format == FileFormat::jpeg || kind.format == FileFormat::png;
        advice = is_read ? "let its name end in .jpg or .png" : image_advice;
      }
    } catch (const UserError&) {  // unreadable
    }
  }
  left_out.add(what.empty() ? "other file" : what, name, advice);
}

/// The class folders in byte order.
std::vector<std::string> classes_of(const std::string& path, LeftOut& left_out) {
  std::vector<std::string> names;
  std::int64_t looked_into = 0;
  each_entry(path, left_out, [&](const std::string& name, const fs::directory_entry& entry) {
    if (leads_to_folder(entry)) {
      names.push_back(name);
    } else {
      leave_out(entry.path().string(), name, looked_into, left_out);
    }
  });
  std::sort(names.begin(), names.end());
  return names;
}

/// The images below `folder`, as paths that begin with it.
void collect(const std::string& folder, int depth, std::vector<std::string>& images,
             std::int64_t& looked_into, LeftOut& left_out) {
  if (depth > deepest) {
    throw UserError(cat(config::printable(folder), ": is more than ", deepest,
                        " folders deep; is there a link that leads back?"));
  }
  each_entry(folder, left_out, [&](const std::string& name, const fs::directory_entry& entry) {
    std::string path = folder;
    if (!path.ends_with('/')) path += '/';
    path += name;
    if (leads_to_folder(entry)) {
      collect(path, depth + 1, images, looked_into, left_out);
    } else if (has_image_ending(name)) {
      images.push_back(std::move(path));
    } else {
      leave_out(path, name, looked_into, left_out);
    }
  });
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), max_names_told); ++i)
    text += (i == 0 ? "" : ", ") + config::quoted(names[i]);
  return names.size() > max_names_told ? cat(text, " and ", names.size() - max_names_told, " more") : text;
}

/// Whether a data set's part has this name: "train", "Val", "test" …
bool names_part(const std::string& name, std::span<const std::string_view> parts) {
  return std::ranges::find(parts, config::lower_case(name)) != parts.end();
}

/// @throws UserError if the folders in `path` are the parts of a data set instead of its classes
void refuse_parts(const std::string& path, const std::vector<std::string>& classes) {
  static constexpr std::array<std::string_view, 2> training = {"train", "training"};
  static constexpr std::array<std::string_view, 8> validation = {"val",  "valid", "validation", "dev",
                                                                 "eval", "test",  "testing",    "holdout"};
  const auto find = [&](std::span<const std::string_view> parts) {
    return std::ranges::find_if(classes, [&](const std::string& name) { return names_part(name, parts); });
  };
  const auto train = find(training);
  const auto other = find(validation);
  if (train == classes.end() && other == classes.end()) return;
  const bool all = std::ranges::all_of(classes, [&](const std::string& name) {
    return names_part(name, training) || names_part(name, validation);
  });
  LeftOut ignored;
  const bool both =
      train != classes.end() && other != classes.end() && !classes_of(path + "/" + *train, ignored).empty();
  if (!all && !both) return;
  const auto advice = [&](const char* key, auto part) {
    return cat(key, " = ", config::quoted(path + "/" + *part));
  };
  std::string keys;
  if (train != classes.end()) keys = advice("data.train.path", train);
  if (other != classes.end()) keys += (keys.empty() ? "" : " and ") + advice("data.validation.path", other);
  throw UserError(
      cat(path, ": its folders ", names_text(classes), " are parts of a data set, not classes; set ", keys));
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
  LeftOut ignored;
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

}  // namespace

bool is_image_ending(std::string_view ending) {
  static constexpr std::array<std::string_view, 5> endings = {".jpg", ".jpeg", ".png", ".jpe", ".jfif"};
  return std::ranges::find(endings, ending) != endings.end();
}

bool has_image_ending(const std::string& name) {
  return is_image_ending(small_ending(name));
}

std::string_view foreign_image_of(std::string_view ending) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 23> endings = {
      {{".webp", "WebP image"},
       {".gif", "GIF image"},
       {".bmp", "BMP image"},
       {".tif", "TIFF image"},
       {".tiff", "TIFF image"},
       {".heic", "HEIC image"},
       {".heif", "HEIC image"},
       {".avif", "AVIF image"},
       {".jp2", "JPEG 2000 image"},
       {".j2k", "JPEG 2000 image"},
       {".jpx", "JPEG 2000 image"},
       {".jxl", "JPEG XL image"},
       {".ppm", "PNM image"},
       {".pgm", "PNM image"},
       {".pbm", "PNM image"},
       {".pnm", "PNM image"},
       {".ico", "icon"},
       {".svg", "SVG image"},
       {".psd", "Photoshop image"},
       {".dng", "raw image"},
       {".cr2", "raw image"},
       {".nef", "raw image"},
       {".arw", "raw image"}}};
  const auto found = std::ranges::find(endings, ending, [](const auto& each) { return each.first; });
  return found == endings.end() ? std::string_view() : found->second;
}

std::vector<std::string> class_folders(const std::string& path) {
  LeftOut ignored;
  return classes_of(path, ignored);
}

ImageList list_unlabelled_images(const std::vector<std::string>& files_and_folders) {
  ImageList list;
  LeftOut left_out;
  std::int64_t looked_into = 0;
  std::vector<std::string> images;
  for (const std::string& path : files_and_folders) {
    std::error_code error;
    images = {path};
    if (fs::is_directory(path, error)) {
      images.clear();
      collect(path, 1, images, looked_into, left_out);
      std::sort(images.begin(), images.end());
      if (images.empty())
        throw UserError(cat(config::printable(path), ": holds no image (*.jpg, *.jpeg, *.png)",
                            left_out.text(), "; check the path"));
    } else if (!fs::exists(path, error)) {
      throw UserError(cat(config::printable(path), ": is missing; check the path"));
    }
    for (const std::string& image : images) add(list, image, 0);
  }
  list.source = files_and_folders.front();
  list.description =
      cat(list.size(), list.size() == 1 ? " image: " : " images: ", names_text(files_and_folders));
  list.left_out = left_out;
  return list;
}

ImageList read_image_folder(const std::string& path, const ImageFolderOptions& options) {
  std::error_code error;
  if (fs::is_regular_file(path, error))
    refuse_other_kinds(path, FileFormat::folder, "a folder with a folder of images for each class");
  LeftOut left_out;
  std::int64_t looked_into = 0;
  const std::vector<std::string> classes = classes_of(path, left_out);
  if (classes.empty()) {
    throw UserError(cat(
        path, ": has no folder for a class; the images of each class lie in a folder of their own, as ", path,
        "/cat/1.jpg: name the folder that these are in, or give a list of images and labels "
        "(data.kind = \"image-list\")"));
  }
  refuse_parts(path, classes);
  check_names(path, classes, options.same_as);
  if (std::ssize(classes) != options.classes && options.classes != any_classes) {
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
    collect(path + "/" + classes[label], 1, images, looked_into, left_out);
    std::sort(images.begin(), images.end());
    if (images.empty()) without.push_back(classes[label]);
    for (const std::string& image : images)
      add(list, image.substr(path.size() + 1), static_cast<std::int32_t>(label));
  }
  if (list.entries.empty() || (!without.empty() && !options.empty_classes)) {
    throw UserError(cat(path, ": no image (*.jpg, *.jpeg, *.png) for class ", names_text(without),
                        left_out.text(), "; every class needs one: add images or remove the folder"));
  }
  list.description = cat(list.size(), " images of ", classes.size(), " classes in ", path,
                         without.empty() ? "" : cat(", no image of ", names_text(without)));
  list.left_out = left_out;
  return list;
}

}  // namespace flotilla
