// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/npz_file.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "src/data/arrays/npy_array.hpp"
#include "src/data/arrays/streamed_array.hpp"
#include "src/data/arrays/zip_index.hpp"
#include "src/data/data_file.hpp"
#include "src/data/file_kind.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;
constexpr const char* npy_ending = ".npy";
constexpr const char* numpy_file = "a file of NumPy (.npy, .npz)";

std::shared_ptr<const UnchangedFile> unchanged(File file) {
  return std::make_shared<const UnchangedFile>(std::move(file));
}

/// Of stored arrays what this process still compares with their checksums: data sets may be of many files.
std::atomic<std::int64_t> bytes_to_compare{std::int64_t{1} << 30};

class NpzFile final : public ArrayFile {
 public:
  NpzFile(const std::string& path, const std::map<std::string, std::string>& inflated, bool in_order)
      : path_(path), inflated_(inflated), in_order_(in_order), file_(unchanged(open_data_file(path))) {
    try {
      members_ = zip_members(file_->file());
    } catch (const UserError&) {
      refuse_other_kinds(path, FileFormat::npz, numpy_file);
      throw;
    }
    if (names().empty()) refuse_other_kinds(path, FileFormat::npz, numpy_file);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const ZipMember& member : members_)
      if (member.name.ends_with(npy_ending)) names.push_back(member.name.substr(0, member.name.rfind('.')));
    return names;
  }

  std::unique_ptr<Array> open(const std::string& name) const override {
    const auto found = std::ranges::find(members_, name + npy_ending, &ZipMember::name);
    require(found != members_.end(), path_, " has no array ", name);
    const std::string shown_name = cat("'", path_, "', ", name);
    if (!found->deflated) {
      if ((bytes_to_compare -= found->stored) >= 0) check_stored(file_->file(), *found);
      return open_npy(shown_name, file_, found->begin, found->stored);
    }
    if (in_order_) return streamed(shown_name, *found);
    std::optional<File> copy;
    if (const auto handle = inflated_.find(cat(path_, "/", found->name)); handle != inflated_.end())
      copy = File::of_handle(handle->second, cat("the inflated copy of ", shown_name));
    if (!copy) copy = inflated_member(file_->file(), *found);
    return open_npy(shown_name, unchanged(std::move(*copy)), 0, found->bytes);
  }

 private:
  std::unique_ptr<Array> streamed(const std::string& name, const ZipMember& member) const {
    std::vector<std::byte> begin(static_cast<std::size_t>(std::min(member.bytes, most_npy_header)));
    const std::size_t got = MemberReader(file_->file(), member).read(begin);
    File header = File::in_memory(cat("the header of ", name));
    header.append(std::span(begin).first(got));
    NpyForm array = npy_form(name, *unchanged(std::move(header)), 0, member.bytes);
    return make_streamed_array(std::move(array.form), array.begin, [file = file_, member]() -> ByteReader {
      const auto reader = std::make_shared<MemberReader>(file->file(), member);
      return [file, reader](std::span<std::byte> to) { return reader->read(to); };
    });
  }

  std::string path_;
  std::map<std::string, std::string> inflated_;
  bool in_order_;
  std::shared_ptr<const UnchangedFile> file_;
  std::vector<ZipMember> members_;
};

/// Files of one array each.
class NpyFiles final : public ArrayFile {
 public:
  explicit NpyFiles(std::map<std::string, std::string> paths) : paths_(std::move(paths)) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, path] : paths_) names.push_back(name);
    return names;
  }
  std::unique_ptr<Array> open(const std::string& name) const override {
    const std::string& path = paths_.at(name);
    const auto file = unchanged(open_data_file(path));
    try {
      return open_npy(cat("'", path, "'"), file, 0, file->size());
    } catch (const UserError&) {
      refuse_other_kinds(path, FileFormat::npy, "a NumPy array (.npy)");
      throw;
    }
  }

 private:
  std::map<std::string, std::string> paths_;  ///< By the names of the arrays
};

}  // namespace

std::unique_ptr<ArrayFile> open_npz(const std::string& path,
                                    const std::map<std::string, std::string>& inflated, bool in_order) {
  return std::make_unique<NpzFile>(path, inflated, in_order);
}

std::map<std::string, File> inflated_arrays(const std::string& path, const std::vector<std::string>& names) {
  std::map<std::string, File> copies;
  const File archive = open_data_file(path);
  for (const ZipMember& member : zip_members(archive))
    if (member.deflated &&
        std::ranges::any_of(names, [&](const std::string& name) { return member.name == name + npy_ending; }))
      copies.emplace(cat(path, "/", member.name), inflated_member(archive, member));
  return copies;
}

std::unique_ptr<ArrayFile> open_npy_folder(const std::string& path) {
  std::map<std::string, std::string> paths;
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error))
    if (at->path().extension() == npy_ending) paths[at->path().stem().string()] = at->path().string();
  if (error) throw UserError(cat(path, ": this folder cannot be read: ", error.message()));
  return std::make_unique<NpyFiles>(std::move(paths));
}

std::unique_ptr<ArrayFile> open_npy_file(const std::string& path) {
  return std::make_unique<NpyFiles>(
      std::map<std::string, std::string>{{fs::path(path).stem().string(), path}});
}

}  // namespace flotilla
