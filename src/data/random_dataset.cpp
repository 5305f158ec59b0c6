// SPDX-License-Identifier: Apache-2.0
#include "src/data/random_dataset.hpp"

#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace flotilla {

namespace {

class RandomDataset final : public Dataset {
 public:
  explicit RandomDataset(const RandomDatasetSpec& spec) : spec_(spec) {}

  std::int64_t size() const override { return spec_.samples; }
  const Shape& sample_shape() const override { return spec_.shape; }
  std::string description() const override {
    return cat(spec_.samples, " random samples ", spec_.shape.text(), ", ", spec_.classes, " classes");
  }

  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    require(0 <= i && i < size() && std::ssize(to) == spec_.shape.size(), "sample ", i, " of ", size(),
            " cannot be made in ", to.size(), " floats");
    Random random(spec_.seed, random_data, static_cast<std::uint64_t>(i));
    const std::uint64_t label = random.below(static_cast<std::uint64_t>(spec_.classes));
    random.fill(to);
    return static_cast<std::int32_t>(label);
  }

 private:
  RandomDatasetSpec spec_;
};

}  // namespace

std::unique_ptr<Dataset> make_random_dataset(const RandomDatasetSpec& spec) {
  require(spec.samples > 0 && spec.classes > 0 && spec.shape.size() > 0,
          "random data need samples, classes, a shape");
  return std::make_unique<RandomDataset>(spec);
}

}  // namespace flotilla
