// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_dataset.hpp"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/images/file_cache.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

/// Larger files are no photographs; reading one would take the memory that it has.
constexpr std::int64_t most_file_bytes = std::int64_t{1} << 30;

class ImageDataset final : public Dataset {
 public:
  ImageDataset(ImageList list, std::unique_ptr<const ImageTransform> transform,
               const ImageDatasetOptions& options)
      : list_(std::move(list)),
        transform_(std::move(transform)),
        shape_(transform_->sample_shape()),
        remedy_(options.remedy) {
    if (options.ranks_cached > 0) cache_.emplace(list_, options.ranks_cached);
  }

  std::int64_t size() const override { return list_.size(); }
  const Shape& sample_shape() const override { return shape_; }
  std::string description() const override {
    return cat(list_.description, ", as ", shape_.text(),
               cache_ ? cat(", ", bytes_text(cache_->bytes()), " kept in memory once read") : "");
  }

  std::string name(std::int64_t i) const override { return std::string(list_.written(i)); }

  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return read_image(i, to, [&](auto file) { transform_->apply(file, variation, to); });
  }
  std::optional<ByteScaling> scaling() const override { return transform_->scaling(); }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    return read_image(i, to, [&](auto file) { transform_->apply_bytes(file, variation, to); });
  }

  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    for (const ImageList::Entry& entry : list_.entries) sum.add(std::as_bytes(std::span(&entry.label, 1)));
    for (const std::int64_t i : samples) {
      std::span<const std::byte> file;
      std::int64_t bytes = 0;
      try {
        file = bytes_of(i);
        bytes = std::ssize(file);
      } catch (const std::runtime_error&) {
        bytes = -1;  // cannot be read: it may be replaced (data.on_bad_image)
      }
      sum.add(std::as_bytes(std::span(&bytes, 1)));
      sum.add(file);
    }
  }

 private:
  /// Calls `decode` with the bytes of the file of sample i. @returns the label
  template <class Value, class Decode>
  std::int32_t read_image(std::int64_t i, std::span<Value> to, const Decode& decode) const {
    require(0 <= i && i < size() && std::ssize(to) == shape_.size(), "sample ", i, " of ", size(),
            " cannot be read into ", to.size(), " values");
    try {
      decode(bytes_of(i));
    } catch (const BadImage& error) {
      throw BadSample(
          cat(list_.place(i), config::printable(list_.path(i)), ": ", error.what(), "; ", remedy_));
    } catch (const UserError& error) {  // of File: names the path
      throw BadSample(cat(list_.place(i), config::printable(error.what()), "; ", remedy_));
    }
    return list_.entries[static_cast<std::size_t>(i)].label;
  }

  /// Valid until this thread's next call.
  std::span<const std::byte> bytes_of(std::int64_t i) const {
    thread_local std::vector<std::byte> buffer;  // grows to the largest file
    if (cache_) {
      if (const auto cached = cache_->find(i); !cached.empty()) return cached;
    }
    const File file = open_data_file(list_.path(i));
    if (file.size() > most_file_bytes)
      throw BadImage(cat("has ", file.size(), " bytes, too many for an image"));
    buffer.resize(static_cast<std::size_t>(file.size()));
    file.read(0, buffer);
    if (cache_) cache_->keep(i, buffer);
    return buffer;
  }

  ImageList list_;
  std::unique_ptr<const ImageTransform> transform_;
  Shape shape_;
  std::string remedy_;
  mutable std::optional<FileCache> cache_;  // its contents are files'
};

}  // namespace

std::unique_ptr<Dataset> make_image_dataset(ImageList list, std::unique_ptr<const ImageTransform> transform,
                                            const ImageDatasetOptions& options) {
  return std::make_unique<ImageDataset>(std::move(list), std::move(transform), options);
}

}  // namespace flotilla
