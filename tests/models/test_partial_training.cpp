// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/models/resnet_support.hpp"
#include "tests/support/within.hpp"

// Networks of which only a part is trained: frozen parameters, fixed statistics.

namespace flotilla {
namespace {

using test::relative_difference;
using test::ResnetCase;
using test::ResnetRun;

ResnetCase spec() {
  return {.model = {.depth = 18, .outputs = 10}, .input = {4, 3, 64, 64}};
}

/// For each slice, whether its name begins with one of `names`.
std::vector<bool> named(const ArenaLayout& layout, const std::vector<std::string>& names) {
  std::vector<bool> found;
  for (const Slice& slice : layout.slices()) {
    found.push_back(false);
    for (const std::string& name : names) found.back() = found.back() || slice.name.starts_with(name);
  }
  return found;
}

void bind(ResnetRun& run) {
  run.network->bind({.parameters = run.parameters.span(),
                     .gradients = run.gradients.span(),
                     .statistics = run.statistics.span(),
                     .step_statistics = run.step_values.span()});
}

/// Running statistics as after some training.
void spread_statistics(ResnetRun& run) {
  std::vector<float> values(run.statistics.size());
  run.device->memory().download(run.statistics.span(), values);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.01F * static_cast<float>(i % 17);
  run.device->memory().upload(values, run.statistics.span());
}

TEST(FrozenParameters, HaveGradientsOfZeroAndLeaveTheOthersAsTheyAre) {
  ResnetRun whole("cpu", spec());
  ResnetRun part("cpu", spec());
  const std::vector<bool> frozen =
      named(part.network->layout(), {"conv1.", "bn1.", "layer1.", "layer3.0.conv2.", "fc.bias"});
  part.network->freeze(frozen, false);
  part.device->flat().fill(part.gradients.span(), 3.0F);  // of another step

  whole.step();
  std::vector<std::int64_t> ready;
  part.loss();
  part.network->backward({.labels = part.labels, .valid = 4}, 0.25F,
                         [&](std::int64_t begin) { ready.push_back(begin); });

  EXPECT_EQ(ready.back(), 0);
  EXPECT_TRUE(std::is_sorted(ready.rbegin(), ready.rend()));
  std::vector<float> expected = whole.plain_gradients();
  std::size_t at = 0;
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    const auto size = static_cast<std::size_t>(whole.network->layout()[i].shape.size());
    if (frozen[i]) std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(at), size, 0.0F);
    at += size;
  }
  EXPECT_EQ(part.plain_gradients(), expected);
  part.loss();  // the memory of gradients is free again
  part.network->backward({.labels = part.labels, .valid = 4}, 0.25F, [](std::int64_t) {});
  EXPECT_EQ(part.plain_gradients(), expected);
}

TEST(FixedStatistics, AreUsedInTrainingAndNotUpdated) {
  for (const std::string device : {"cpu", "reference"}) {
    ResnetRun run(device, {.model = {.depth = 18, .outputs = 10}, .input = {2, 3, 32, 32}});
    spread_statistics(run);
    run.network->fix_statistics(std::vector<bool>(run.network->statistics().layout().slices().size(), true));
    bind(run);

    run.loss(Pass::inference);
    const std::vector<float> inferred = run.logits();
    run.loss(Pass::training);

    EXPECT_EQ(run.logits(), inferred) << device;
    for (const float value : run.step_statistics()) ASSERT_EQ(value, 0.0F) << device;
  }
}

TEST(FixedStatistics, OfOneNormLeaveThoseOfOthers) {
  ResnetRun run("cpu", spec());
  run.network->fix_statistics(named(run.network->statistics().layout(), {"layer2."}));
  bind(run);
  run.loss();

  const ArenaLayout& layout = run.network->statistics().layout();
  const std::vector<float> values = run.step_statistics();
  std::size_t at = 0;
  for (const Slice& slice : layout.slices()) {
    EXPECT_EQ(values[at] == 0.0F, slice.name.starts_with("layer2.")) << slice.name;
    at += static_cast<std::size_t>(slice.shape.size());
  }
}

/// The loss along the gradient rises by the gradient's norm.
TEST(FixedStatistics, HaveTheGradientOfTheLossWithThem) {
  ResnetRun run("cpu", spec());
  spread_statistics(run);
  run.network->fix_statistics(std::vector<bool>(run.network->statistics().layout().slices().size(), true));
  bind(run);

  run.step(1.0F);
  const double norm = std::sqrt(run.device->flat().sum_of_squares(run.gradients.span()));
  constexpr double length = 1e-3;
  const auto move = [&](double by) {
    run.device->flat().axpy(static_cast<float>(by / norm), run.gradients.span(), run.parameters.span());
    return run.loss();
  };
  const double above = move(length);
  const double below = move(-2.0 * length);

  EXPECT_TRUE(test::within((above - below) / (2.0 * length), norm, 0.02 * norm));
}

TEST(FixedStatistics, GiveTheSameGradientsWithRecomputation) {
  ResnetCase recomputing = spec();
  recomputing.model.recompute = {"blocks", "conv1"};
  ResnetRun kept("cpu", spec());
  ResnetRun again("cpu", recomputing);
  for (ResnetRun* run : {&kept, &again}) {
    run->network->fix_statistics(named(run->network->statistics().layout(), {"layer1.", "layer4.", "bn1."}));
    bind(*run);
    run->step();
  }
  EXPECT_EQ(again.plain_gradients(), kept.plain_gradients());
}

}  // namespace
}  // namespace flotilla
