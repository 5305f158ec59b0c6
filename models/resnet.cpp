// SPDX-License-Identifier: Apache-2.0
#include "models/resnet.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/error.hpp"
#include "models/dropout_layer.hpp"
#include "models/linear_layer.hpp"
#include "models/pool_layer.hpp"
#include "models/residual_block.hpp"
#include "models/stem_layer.hpp"

namespace flotilla {

namespace {

/// One network of the family.
struct Family {
  std::int64_t depth;
  bool bottleneck;
  std::array<int, 4> blocks;  ///< Of layer1 … layer4
};

constexpr std::array<Family, 5> families = {{{18, false, {2, 2, 2, 2}},
                                             {34, false, {3, 4, 6, 3}},
                                             {50, true, {3, 4, 6, 3}},
                                             {101, true, {3, 4, 23, 3}},
                                             {152, true, {3, 8, 36, 3}}}};

const Family& family_of(std::int64_t depth) {
  const auto family = std::ranges::find(families, depth, &Family::depth);
  if (family == families.end())
    throw UserError(cat("model.depth must be 18, 34, 50, 101 or 152, got ", depth));
  return *family;
}

/// Which layers are computed again; remembers which words named some.
class Recompute {
 public:
  explicit Recompute(const std::vector<std::string>& words) : words_(words), used_(words.size()) {}
  bool names(const std::string& layer) {
    bool named = false;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::string& word = words_[i];
      if (word != "blocks" && word != layer && !layer.starts_with(word + ".")) continue;
      named = used_[i] = true;
    }
    return named;
  }
  void check() const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (!used_[i])
        throw UserError(cat("model.recompute names \"", words_[i],
                            "\", which this model does not have; give \"blocks\", \"conv1\", \"layer1\" … "
                            "\"layer4\", or a block such as \"layer1.0\""));
  }

 private:
  const std::vector<std::string>& words_;
  std::vector<bool> used_;
};

void check_values_per_channel(const ResnetSpec& spec, const Shape& shape) {
  const std::int64_t workers = spec.exchange == nullptr ? 1 : spec.exchange->workers();
  if (spec.purpose == Purpose::inference || shape[0] * shape[2] * shape[3] * workers > 1) return;
  throw UserError(
      cat("images of ", spec.input[2], "×", spec.input[3], " and a batch of ", spec.input[0],
          " leave a single value per channel for the batch norms of layer4: give larger images or "
          "a larger batch"));
}

}  // namespace

std::unique_ptr<Network> make_resnet(Device& device, const ResnetSpec& spec) {
  const Family& family = family_of(spec.depth);
  if (spec.input.rank() != 4 || spec.input[1] != 3)
    throw UserError(
        cat("a ResNet needs images of three channels, got samples of ", spec.input.text(), " (batch first)"));
  Recompute recompute(spec.recompute);
  auto network = std::make_unique<Network>(device, NetworkSpec{.input = spec.input,
                                                               .classes = spec.classes,
                                                               .label_smoothing = spec.label_smoothing,
                                                               .loss = spec.loss,
                                                               .purpose = spec.purpose});
  const Building building = network->building();
  const bool training = spec.purpose == Purpose::training;

  auto stem =
      std::make_unique<StemLayer>(building, StemSpec{.input = spec.input,
                                                     .recompute = recompute.names("conv1") && training,
                                                     .accumulate = spec.accumulate,
                                                     .exchange = spec.exchange});
  Shape shape = stem->output_shape();
  network->append(std::move(stem));
  const std::int64_t expansion = family.bottleneck ? 4 : 1;
  std::size_t index = 0;
  for (std::size_t stage = 0; stage < family.blocks.size(); ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (int i = 0; i < family.blocks[stage]; ++i) {
      const std::string name = cat("layer", stage + 1, ".", i);
      auto block = std::make_unique<ResidualBlock>(
          building, ResidualBlockSpec{.name = name,
                                      .input = shape,
                                      .width = width,
                                      .out = width * expansion,
                                      .stride = i == 0 && stage > 0 ? 2 : 1,
                                      .bottleneck = family.bottleneck,
                                      .recompute = recompute.names(name) && training,
                                      .accumulate = spec.accumulate,
                                      .exchange = spec.exchange,
                                      .index = index++});
      shape = block->output_shape();
      network->append(std::move(block));
    }
  }
  recompute.check();
  check_values_per_channel(spec, shape);

  auto average = std::make_unique<PoolLayer>(building, "avgpool",
                                             Pool2dSpec{.input = shape, .kind = Pooling::global_average});
  const Shape features = average->output_shape();
  network->append(std::move(average));
  if (spec.dropout > 0.0F)
    network->append(std::make_unique<DropoutLayer>(
        building, "dropout",
        DropoutSpec{.input = features, .probability = spec.dropout, .seed = spec.dropout_seed}));
  const double bound = 1.0 / std::sqrt(static_cast<double>(features[1]));
  network->append(std::make_unique<LinearLayer>(
      building, "fc",
      LinearSpec{.batch = features[0], .in = features[1], .out = spec.classes, .accumulate = spec.accumulate},
      Initializer{.kind = Initializer::Kind::uniform, .scale = bound}, false));
  network->finish();
  return network;
}

}  // namespace flotilla
