// SPDX-License-Identifier: Apache-2.0
#include "src/data/dataset.hpp"

#include <algorithm>
#include <utility>

#include "kernels/random.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/held_back.hpp"

namespace flotilla {

namespace {

/// Random samples for tests and benchmarks: values uniform in [0, 1), and labels uniform in 0 … classes − 1
/// or `targets` numbers uniform in [0, 1), pure functions of (seed, sample). Needs no memory.
class RandomDataset final : public Dataset {
 public:
  RandomDataset(std::int64_t samples, const Shape& shape, std::int64_t classes, std::int64_t targets,
                std::uint64_t seed)
      : classes_(classes), seed_(seed) {
    require(samples > 0 && (classes > 0 || targets > 0), "random data need samples, and classes or targets");
    set_facts({.size = samples,
               .shape = shape,
               .description = cat(samples, " random samples ", shape.text(), ", ",
                                  targets > 0 ? cat(targets, targets == 1 ? " target" : " targets")
                                              : cat(classes, " classes")),
               .target_width = targets});
  }

  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    require(0 <= i && i < size() && std::ssize(to) == sample_shape().size(), "sample ", i, " of ", size(),
            " cannot be made in ", to.size(), " floats");
    Random random(seed_, random_data, static_cast<std::uint64_t>(i));
    const std::uint64_t label = target_width() > 0 ? 0 : random.below(static_cast<std::uint64_t>(classes_));
    random.fill(to);
    return static_cast<std::int32_t>(label);
  }

  void read_targets(std::int64_t i, std::span<float> to) const override {
    Random(seed_, random_data, ~static_cast<std::uint64_t>(i)).fill(to);  // another stream than the values'
  }

 private:
  std::int64_t classes_;
  std::uint64_t seed_;
};

std::unique_ptr<Dataset> open_random(const DataRequest& request) {
  Shape shape;
  std::string given;
  // One axis less than a tensor may have: the batch comes in front.
  bool good = !request.data.shape.empty() && request.data.shape.size() < std::size_t{Shape::max_rank};
  for (const std::int64_t extent : request.data.shape) {
    given += cat(given.empty() ? "" : ", ", extent);
    good = good && extent > 0;
    if (good) shape.append(extent);
  }
  if (!good) {
    throw UserError(cat("data.shape must be 1 to ", Shape::max_rank - 1,
                        " positive extents of one sample, got [", given, "]; for example [32]"));
  }
  if (request.source.samples <= 0)
    throw UserError("data.train.samples and data.validation.samples must be positive for random data");
  return std::make_unique<RandomDataset>(request.source.samples, shape, request.classes, request.use.targets,
                                         request.seed);
}

/// The form that the deck says.
SampleForm form_of_random(const DataRequest& request) {
  SampleForm form;
  for (const std::int64_t extent : request.data.shape) form.shape.append(extent);
  return form;
}

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

const DataReader random_reader = {.kind = DataKind::random, .open = open_random, .form = form_of_random};

std::int32_t Dataset::read_bytes(std::int64_t /*i*/, std::uint64_t /*variation*/,
                                 std::span<std::uint8_t> /*to*/) const {
  throw InternalError(cat("samples of ", description(), " are not bytes"));
}

std::int32_t Dataset::label(std::int64_t i) const {
  if (facts_.label_of) return facts_.label_of(i);
  std::vector<float> sample(static_cast<std::size_t>(sample_shape().size()));
  return read(i, 0, sample);
}

void Dataset::read_stored(std::int64_t /*i*/, std::span<double> /*inputs*/,
                          std::span<double> /*targets*/) const {
  throw InternalError(cat("the numbers of ", description(), " are not read as they are stored"));
}

void Dataset::read_targets(std::int64_t /*i*/, std::span<float> /*to*/) const {
  throw InternalError(cat("samples of ", description(), " have no targets but labels"));
}

std::vector<std::int64_t> Dataset::deal(ShardBy /*how*/, std::int64_t /*workers*/) const {
  throw InternalError("these samples do not lie in files");
}

std::unique_ptr<BagReader> Dataset::bag_reader() const {
  throw InternalError("these samples have no bags");
}

std::string identity_of(const Dataset& data) {
  const std::int64_t count = std::min(data.size(), identified_samples);
  std::vector<std::int64_t> samples;
  const std::int64_t gaps = std::max<std::int64_t>(count - 1, 1);
  for (std::int64_t k = 0; k < count; ++k) samples.push_back(k * (data.size() - 1) / gaps);
  Checksum sum;
  data.identify(samples, sum);
  return cat(data.size(), " samples, xxh3 ", hexadecimal(sum.value()));
}

std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const DataSourceConfig& source,
                                      std::int64_t classes, std::uint64_t seed, const DatasetUse& use) {
  const auto open = [&] {
    return reader_of(data.kind).open({data, source, classes == 0 ? any_classes : classes, seed, use});
  };
  const std::string& folder = source.staged_below;
  std::unique_ptr<Dataset> opened =
      folder.empty() ? open() : std::make_unique<StagedDataset>(folder, tell_of_originals(folder, open));
  if (source.has_labels() && opened->target_width() != use.targets) {
    const auto kind = [](std::int64_t targets) {
      return targets == 0 ? std::string("labels of classes") : cat(targets, " numbers a sample");
    };
    throw UserError(cat("the targets of ", opened->description(), " are ", kind(opened->target_width()),
                        ", and the model is to predict ", kind(use.targets),
                        "; see model.loss, model.outputs and data.targets"));
  }
  const double share = data.validation.share;
  if (share == 0.0) return opened;
  return part_of_dataset(std::move(opened), share,
                         use.training ? SamplePart::training : SamplePart::held_back);
}

}  // namespace flotilla
