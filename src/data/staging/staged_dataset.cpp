// SPDX-License-Identifier: Apache-2.0
#include "src/data/staging/staged_dataset.hpp"

#include <utility>

namespace flotilla {

namespace {

/// Runs `work`; its UserErrors stay of the kind that they are.
template <class Work>
auto tell_of_originals(const std::string& folder, const Work& work) {
  const auto text = [&](const UserError& error) {
    const std::string what = error.what();
    if (what.find(folder) == what.npos) return what;
    return cat(what, " (a copy made for data.stage_to: the original has the same path without ", folder, ")");
  };
  try {
    return work();
  } catch (const BadSample& error) {
    throw BadSample(text(error));
  } catch (const UserError& error) {
    throw UserError(text(error));
  }
}

class StagedBags final : public BagReader {
 public:
  StagedBags(const std::string& folder, std::unique_ptr<BagReader> copies)
      : folder_(folder), copies_(std::move(copies)) {}
  std::int32_t read(std::int64_t i, std::span<float> dense, BagBuffer& bags) override {
    return tell_of_originals(folder_, [&] { return copies_->read(i, dense, bags); });
  }

 private:
  const std::string& folder_;
  std::unique_ptr<BagReader> copies_;
};

class StagedDataset final : public Dataset {
 public:
  StagedDataset(std::string folder, std::unique_ptr<Dataset> copies)
      : folder_(std::move(folder)), copies_(std::move(copies)) {}

  std::int64_t size() const override { return copies_->size(); }
  const Shape& sample_shape() const override { return copies_->sample_shape(); }
  std::string description() const override { return copies_->description(); }
  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return tell_of_originals(folder_, [&] { return copies_->read(i, variation, to); });
  }
  std::optional<ByteScaling> scaling() const override { return copies_->scaling(); }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    return tell_of_originals(folder_, [&] { return copies_->read_bytes(i, variation, to); });
  }
  std::int64_t target_width() const override { return copies_->target_width(); }
  void read_targets(std::int64_t i, std::span<float> to) const override {
    tell_of_originals(folder_, [&] { copies_->read_targets(i, to); });
  }
  void check_targets(std::int64_t first, std::int64_t count, MistakeList& mistakes) const override {
    copies_->check_targets(first, count, mistakes);
  }
  void will_read(std::int64_t first, std::int64_t count) const override { copies_->will_read(first, count); }
  std::int64_t slots() const override { return copies_->slots(); }
  bool weighted() const override { return copies_->weighted(); }
  std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const override {
    return copies_->deal(how, workers);
  }
  std::unique_ptr<BagReader> bag_reader() const override {
    return std::make_unique<StagedBags>(folder_, copies_->bag_reader());
  }
  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    tell_of_originals(folder_, [&] { copies_->identify(samples, sum); });
  }

 private:
  std::string folder_;
  std::unique_ptr<Dataset> copies_;
};

}  // namespace

std::unique_ptr<Dataset> open_staged(const std::string& folder,
                                     const std::function<std::unique_ptr<Dataset>()>& open) {
  return std::make_unique<StagedDataset>(folder, tell_of_originals(folder, open));
}

}  // namespace flotilla
