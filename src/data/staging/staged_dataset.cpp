// SPDX-License-Identifier: Apache-2.0
#include "src/data/staging/staged_dataset.hpp"

#include <utility>

#include "src/data/wrapped_dataset.hpp"

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

class StagedDataset final : public WrappedDataset {
 public:
  StagedDataset(std::string folder, std::unique_ptr<Dataset> copies)
      : WrappedDataset(std::move(copies)), folder_(std::move(folder)) {}

  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return tell_of_originals(folder_, [&] { return inner().read(i, variation, to); });
  }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    return tell_of_originals(folder_, [&] { return inner().read_bytes(i, variation, to); });
  }
  void read_targets(std::int64_t i, std::span<float> to) const override {
    tell_of_originals(folder_, [&] { inner().read_targets(i, to); });
  }
  std::unique_ptr<BagReader> bag_reader() const override {
    return std::make_unique<StagedBags>(folder_, inner().bag_reader());
  }
  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    tell_of_originals(folder_, [&] { inner().identify(samples, sum); });
  }

 private:
  std::string folder_;
};

}  // namespace

std::unique_ptr<Dataset> open_staged(const std::string& folder,
                                     const std::function<std::unique_ptr<Dataset>()>& open) {
  return std::make_unique<StagedDataset>(folder, tell_of_originals(folder, open));
}

}  // namespace flotilla
