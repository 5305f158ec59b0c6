// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/data/dataset.hpp"

namespace flotilla {

/// Passes every call on to another data set: the base of those that change a part of what it does.
class WrappedDataset : public Dataset {
 public:
  explicit WrappedDataset(std::unique_ptr<Dataset> inner) : inner_(std::move(inner)) {}

  std::int64_t size() const override { return inner_->size(); }
  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    inner_->identify(samples, sum);
  }
  const Shape& sample_shape() const override { return inner_->sample_shape(); }
  std::string description() const override { return inner_->description(); }
  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return inner_->read(i, variation, to);
  }
  std::string number_type() const override { return inner_->number_type(); }
  std::optional<ByteScaling> scaling() const override { return inner_->scaling(); }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    return inner_->read_bytes(i, variation, to);
  }
  std::int64_t target_width() const override { return inner_->target_width(); }
  void read_targets(std::int64_t i, std::span<float> to) const override { inner_->read_targets(i, to); }
  void check_targets(std::int64_t first, std::int64_t count, MistakeList& mistakes) const override {
    inner_->check_targets(first, count, mistakes);
  }
  void will_read(std::int64_t first, std::int64_t count) const override { inner_->will_read(first, count); }
  std::string name(std::int64_t i) const override { return inner_->name(i); }
  std::int64_t slots() const override { return inner_->slots(); }
  bool weighted() const override { return inner_->weighted(); }
  std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const override {
    return inner_->deal(how, workers);
  }
  std::unique_ptr<BagReader> bag_reader() const override { return inner_->bag_reader(); }

 protected:
  const Dataset& inner() const { return *inner_; }

 private:
  std::unique_ptr<Dataset> inner_;
};

}  // namespace flotilla
