// SPDX-License-Identifier: Apache-2.0
#include "src/data/idx_dataset.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/idx_file.hpp"

namespace flotilla {

namespace {

constexpr std::size_t chunk_bytes = 4096;  // on the stack: an MNIST digit is one chunk of 784

std::string file_name(const IdxFile& idx) {
  return std::filesystem::path(idx.path).filename().string();
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxFile images, std::int64_t classes, const PixelScale& scale)
      : images_(std::move(images)),
        labels_(static_cast<std::size_t>(images_.items)),
        shape_({1, images_.rows, images_.columns}),
        classes_(classes),
        scaler_(scale) {}

  void read_labels(const IdxFile& labels) {
    if (images_.items != labels.items) {
      throw UserError(cat(images_.path, ": holds ", images_.items, " images, but ", labels.path, " holds ",
                          labels.items, " labels; give two files that belong together"));
    }
    labels.bytes.read(labels.begin, std::as_writable_bytes(std::span(labels_)));
    for (std::int64_t i = 0; i < size(); ++i) check_label(labels, i);
  }

  std::int64_t size() const override { return images_.items; }
  const Shape& sample_shape() const override { return shape_; }

  std::string description() const override {
    const std::string where = images_.storage.empty() ? "" : cat(" (", images_.storage, ")");
    return cat(images_.items, " images ", images_.rows, "x", images_.columns, " of ", file_name(images_),
               where);
  }

  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    check(i, to.size());
    std::array<std::uint8_t, chunk_bytes> pixels;  // not zeroed: written before it is read
    std::int64_t byte = images_.begin + i * images_.item_bytes();
    while (!to.empty()) {
      const std::size_t count = std::min(to.size(), chunk_bytes);
      images_.bytes.read(byte, std::as_writable_bytes(std::span(pixels).first(count)));
      scaler_.convert(std::span(pixels).first(count), to.data());
      to = to.subspan(count);
      byte += static_cast<std::int64_t>(count);
    }
    return labels_[static_cast<std::size_t>(i)];
  }

  std::string number_type() const override { return "uint8"; }
  std::optional<ByteScaling> scaling() const override {
    return ByteScaling{.factor = {scaler_.factor()}, .offset = {scaler_.offset()}};
  }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t /*variation*/,
                          std::span<std::uint8_t> to) const override {
    check(i, to.size());
    images_.bytes.read(images_.begin + i * images_.item_bytes(), std::as_writable_bytes(to));
    return labels_[static_cast<std::size_t>(i)];
  }

  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    const std::array<std::int64_t, 2> sizes{images_.rows, images_.columns};
    sum.add(std::as_bytes(std::span(sizes)));
    sum.add(std::as_bytes(std::span(labels_)));
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape_.size()));
    for (const std::int64_t i : samples) {
      read_bytes(i, 0, pixels);
      sum.add(std::as_bytes(std::span(pixels)));
    }
  }

 private:
  void check(std::int64_t i, std::size_t room) const {
    require(0 <= i && i < size() && static_cast<std::int64_t>(room) == shape_.size(), "sample ", i, " of ",
            size(), " cannot be read into ", room, " values");
  }

  void check_label(const IdxFile& labels, std::int64_t i) const {
    const std::uint8_t label = labels_[static_cast<std::size_t>(i)];
    if (label < classes_) return;
    throw UserError(cat(labels.path, ": label ", int{label}, " at item ", i, " (byte ",
                        labels.header_bytes + i * labels.stored_item_bytes(),
                        ") is not below model.classes = ", classes_,
                        "; raise model.classes or correct the file"));
  }

  IdxFile images_;
  /// One byte each: a read of its own would cost as much as the image, and a mapped file that is truncated
  /// meanwhile would end the run with SIGBUS.
  std::vector<std::uint8_t> labels_;
  Shape shape_;
  std::int64_t classes_;
  PixelScaler scaler_;
};

}  // namespace

std::unique_ptr<Dataset> open_idx_dataset(const std::string& images, const std::string& labels,
                                          std::int64_t classes, const PixelScale& scale,
                                          const std::map<std::string, std::string>& inflated) {
  const auto open = [&](const std::string& path, IdxKind kind) {
    const auto copy = inflated.find(path);
    return open_idx(path, kind, copy == inflated.end() ? std::string() : copy->second);
  };
  auto data = std::make_unique<IdxDataset>(open(images, IdxKind::images), classes, scale);
  if (!labels.empty()) data->read_labels(open(labels, IdxKind::labels));
  return data;
}

}  // namespace flotilla
