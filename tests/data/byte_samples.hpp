// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "src/data/dataset.hpp"

namespace flotilla::test {

/// The reference device's values of images of bytes, in the order (N,C,H,W).
inline std::vector<float> scaled(const ByteImages& images) {
  const auto device = make_device({.kind = "reference"});
  Tensor to(images.shape, DeviceSpan<float>{});
  device->tensors().stage(images, to);
  std::vector<float> values(images.pixels.size());
  device->tensors().download(to, values);
  return values;
}

/// A data set whose samples cannot be read as bytes.
class AsFloats final : public Dataset {
 public:
  explicit AsFloats(std::unique_ptr<Dataset> data) : data_(std::move(data)) {
    DatasetFacts facts = data_->facts();
    facts.scaling.reset();
    set_facts(facts);
  }
  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return data_->read(i, variation, to);
  }

 private:
  std::unique_ptr<Dataset> data_;
};

}  // namespace flotilla::test
