// SPDX-License-Identifier: Apache-2.0
#include "src/data/held_back.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace flotilla {

namespace {

constexpr std::uint64_t no_run_seed = ~std::uint64_t{0};  // run.seed is not negative

std::uint64_t hash_of(std::int64_t sample) {
  Random random(no_run_seed, random_order, static_cast<std::uint64_t>(sample));
  const std::uint64_t high = random.bits();
  return high << 32 | random.bits();
}

class PartBags final : public BagReader {
 public:
  PartBags(std::span<const std::int64_t> samples, std::unique_ptr<BagReader> all)
      : samples_(samples), all_(std::move(all)) {}
  std::int32_t read(std::int64_t i, std::span<float> dense, BagBuffer& bags) override {
    return all_->read(samples_[static_cast<std::size_t>(i)], dense, bags);
  }

 private:
  std::span<const std::int64_t> samples_;
  std::unique_ptr<BagReader> all_;
};

class PartOfDataset final : public WrappedDataset {
 public:
  PartOfDataset(std::unique_ptr<Dataset> all, std::vector<std::int64_t> samples)
      : WrappedDataset(std::move(all)), samples_(std::move(samples)) {
    DatasetFacts part = inner().facts();
    part.description = cat(samples_.size(), " of ", part.description);
    part.size = std::ssize(samples_);
    if (part.label_of) part.label_of = [this](std::int64_t i) { return inner().label(of_all(i)); };
    set_facts(std::move(part));
  }

  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return inner().read(of_all(i), variation, to);
  }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    return inner().read_bytes(of_all(i), variation, to);
  }
  void read_targets(std::int64_t i, std::span<float> to) const override {
    inner().read_targets(of_all(i), to);
  }
  void read_stored(std::int64_t i, std::span<double> inputs, std::span<double> targets) const override {
    inner().read_stored(of_all(i), inputs, targets);
  }
  std::unique_ptr<BagReader> bag_reader() const override {
    return std::make_unique<PartBags>(samples_, inner().bag_reader());
  }
  void check_targets(std::int64_t first, std::int64_t count, MistakeList& mistakes) const override {
    if (count > 0) inner().check_targets(of_all(first), span_of(first, count), mistakes);
  }
  void will_read(std::int64_t first, std::int64_t count) const override {
    if (count > 0) inner().will_read(of_all(first), span_of(first, count));
  }
  std::string name(std::int64_t i) const override { return inner().name(of_all(i)); }
  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    std::vector<std::int64_t> numbers;
    for (const std::int64_t i : samples) numbers.push_back(of_all(i));
    sum.add(std::as_bytes(std::span(numbers)));
    inner().identify(numbers, sum);
  }
  std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const override {
    std::vector<std::int64_t> shares = inner().deal(how, workers);
    for (std::int64_t& share : shares) share = std::ranges::lower_bound(samples_, share) - samples_.begin();
    return shares;
  }

 private:
  std::int64_t of_all(std::int64_t i) const {
    require(0 <= i && i < size(), "sample ", i, " of ", size());
    return samples_[static_cast<std::size_t>(i)];
  }
  /// Neighbours that hold all of these samples.
  std::int64_t span_of(std::int64_t first, std::int64_t count) const {
    return of_all(first + count - 1) - of_all(first) + 1;
  }

  std::vector<std::int64_t> samples_;
};

}  // namespace

std::vector<std::int64_t> samples_of_part(std::int64_t samples, double share, SamplePart part) {
  if (samples < 2)
    throw UserError(
        "data.validation.share needs two samples at least, one of which is held back: leave it out");
  const std::int64_t wanted = std::llround(share * static_cast<double>(samples));
  const auto last = std::clamp<std::int64_t>(wanted, 1, samples - 1) - 1;
  std::vector<std::uint64_t> hashes;
  hashes.reserve(static_cast<std::size_t>(samples));
  for (std::int64_t i = 0; i < samples; ++i) hashes.push_back(hash_of(i));
  std::ranges::nth_element(hashes, hashes.begin() + last);
  const std::uint64_t largest = hashes[static_cast<std::size_t>(last)];
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < samples; ++i)
    if ((hash_of(i) <= largest) == (part == SamplePart::held_back)) numbers.push_back(i);
  return numbers;
}

std::unique_ptr<Dataset> part_of_dataset(std::unique_ptr<Dataset> all, double share, SamplePart part) {
  std::vector<std::int64_t> samples = samples_of_part(all->size(), share, part);
  return std::make_unique<PartOfDataset>(std::move(all), std::move(samples));
}

}  // namespace flotilla
