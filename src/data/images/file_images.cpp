// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/file_images.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/images/image_decoder.hpp"

namespace flotilla {

namespace {

class FileImages final : public ImageSource {
 public:
  explicit FileImages(ImageList list) : list_(std::move(list)) {}

  std::int64_t size() const override { return list_.size(); }
  std::string description() const override { return list_.description; }
  std::string left_out() const override { return list_.left_out; }
  std::string origin() const override { return list_.source; }
  std::int32_t label(std::int64_t i) const override {
    return list_.entries[static_cast<std::size_t>(i)].label;
  }
  std::string name(std::int64_t i) const override { return std::string(list_.written(i)); }
  std::string place(std::int64_t i) const override {
    return cat(list_.place(i), config::printable(list_.path(i)), ": ");
  }
  std::int64_t bytes(std::int64_t i) const override {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(list_.path(i), error);
    return error ? 0 : static_cast<std::int64_t>(size);
  }
  void read(std::int64_t i, std::vector<std::byte>& to) const override {
    try {
      const File file = open_data_file(list_.path(i));
      if (file.size() > most_image_bytes)
        throw BadImage(cat("has ", file.size(), " bytes, too many for an image"));
      to.resize(static_cast<std::size_t>(file.size()));
      file.read(0, to);
    } catch (const UserError& error) {  // names the path
      throw UserError(cat(list_.place(i), error.what()));
    }
  }

 private:
  ImageList list_;
};

}  // namespace

std::unique_ptr<ImageSource> make_file_images(ImageList list) {
  return std::make_unique<FileImages>(std::move(list));
}

}  // namespace flotilla
