// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_dataset.hpp"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/images/file_cache.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::unique_ptr<const ImageSource> images, std::unique_ptr<const ImageTransform> transform,
               const ImageDatasetOptions& options)
      : images_(std::move(images)),
        transform_(std::move(transform)),
        shape_(transform_->sample_shape()),
        remedy_(options.remedy) {
    if (options.ranks_cached > 0) cache_.emplace(*images_, options.ranks_cached);
  }

  std::int64_t size() const override { return images_->size(); }
  const Shape& sample_shape() const override { return shape_; }
  std::string description() const override {
    return cat(images_->description(), ", as ", shape_.text(),
               cache_ ? cat(", ", bytes_text(cache_->bytes()), " kept in memory once read") : "",
               images_->left_out());
  }

  std::string name(std::int64_t i) const override { return images_->name(i); }

  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return read_image(i, to, [&](auto file) { transform_->apply(file, variation, to); });
  }
  std::string number_type() const override { return "uint8"; }
  std::optional<ByteScaling> scaling() const override { return transform_->scaling(); }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    return read_image(i, to, [&](auto file) { transform_->apply_bytes(file, variation, to); });
  }

  void will_read(std::int64_t first, std::int64_t count) const override { images_->will_read(first, count); }

  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    for (std::int64_t i = 0; i < size(); ++i) {
      const std::int32_t label = images_->label(i);
      sum.add(std::as_bytes(std::span(&label, 1)));
    }
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
      throw BadSample(cat(images_->place(i), error.what(), "; ", remedy_));
    } catch (const UserError& error) {
      throw BadSample(cat(config::printable(error.what()), "; ", remedy_));
    }
    return images_->label(i);
  }

  /// Valid until this thread's next call.
  std::span<const std::byte> bytes_of(std::int64_t i) const {
    thread_local std::vector<std::byte> buffer;  // grows to the largest file
    if (cache_) {
      if (const auto cached = cache_->find(i); !cached.empty()) return cached;
    }
    images_->read(i, buffer);
    if (cache_) cache_->keep(i, buffer);
    return buffer;
  }

  std::unique_ptr<const ImageSource> images_;
  std::unique_ptr<const ImageTransform> transform_;
  Shape shape_;
  std::string remedy_;
  mutable std::optional<FileCache> cache_;  // its contents are files'
};

}  // namespace

std::unique_ptr<Dataset> make_image_dataset(std::unique_ptr<const ImageSource> images,
                                            std::unique_ptr<const ImageTransform> transform,
                                            const ImageDatasetOptions& options) {
  return std::make_unique<ImageDataset>(std::move(images), std::move(transform), options);
}

}  // namespace flotilla
