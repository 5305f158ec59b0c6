// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "kernels/error.hpp"
#include "tests/models/resnet_support.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::make_resnet;
using test::relative_difference;
using test::ResnetCase;
using test::ResnetRun;

ResnetCase small(std::int64_t depth, std::int64_t batch = 4, std::int64_t size = 32) {
  return {.model = {.depth = depth, .outputs = 10}, .input = {batch, 3, size, size}};
}

// torchvision's counts.
TEST(Resnet, HasTheParametersOfTheFamily) {
  const std::map<std::int64_t, std::int64_t> parameters = {
      {18, 11689512}, {34, 21797672}, {50, 25557032}, {101, 44549160}, {152, 60192808}};
  const auto device = make_device({.kind = "cpu", .threads = 1});
  for (const auto& [depth, count] : parameters) {
    const auto network = make_resnet(
        *device, {.model = {.depth = depth, .purpose = Purpose::inference}, .input = {1, 3, 32, 32}});
    EXPECT_EQ(network->layout().values(), count) << depth;
  }
}

TEST(Resnet, NamesTensorsAsTorchvisionDoes) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  const auto network = make_resnet(*device, small(50));
  std::map<std::string, std::string> shapes;
  for (const TensorSet* tensors : {&network->parameters(), &network->statistics()})
    for (const Slice& slice : tensors->layout().slices()) shapes[slice.name] = slice.shape.text();

  EXPECT_EQ(network->layout().slices().size(), 161U);
  EXPECT_EQ(network->statistics().layout().slices().size(), 106U);
  EXPECT_EQ(shapes.size(), 267U);
  EXPECT_EQ(shapes["conv1.weight"], Shape({64, 3, 7, 7}).text());
  EXPECT_EQ(shapes["bn1.running_mean"], Shape({64}).text());
  EXPECT_EQ(shapes["layer1.0.downsample.0.weight"], Shape({256, 64, 1, 1}).text());
  EXPECT_EQ(shapes["layer1.0.downsample.1.running_var"], Shape({256}).text());
  EXPECT_EQ(shapes["layer3.5.conv2.weight"], Shape({256, 256, 3, 3}).text());
  EXPECT_EQ(shapes["layer4.2.bn3.bias"], Shape({2048}).text());
  EXPECT_EQ(shapes["fc.weight"], Shape({10, 2048}).text());
}

class ResnetDepth : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, ResnetDepth, testing::Values(18, 50));

// Rounding differs in the order of sums only, of 4608 products at most; each of 21 layers adds its own, and
// batch norms of few values divide by small deviations.
TEST(Resnet, ComputesOnTheCpuWhatTheReferenceComputes) {
  ResnetRun reference("reference", small(18));
  ResnetRun cpu("cpu", small(18), 0, 2);
  reference.lift_above_zero();
  cpu.lift_above_zero();

  const double reference_loss = reference.step();
  const double cpu_loss = cpu.step();

  EXPECT_TRUE(test::within(cpu_loss, reference_loss, 1e-4 * reference_loss));
  EXPECT_TRUE(test::within(relative_difference(cpu.logits(), reference.logits()), 0.0, 1e-4));
  EXPECT_TRUE(
      test::within(relative_difference(cpu.plain_gradients(), reference.plain_gradients()), 0.0, 2e-3));
  EXPECT_TRUE(
      test::within(relative_difference(cpu.step_statistics(), reference.step_statistics()), 0.0, 1e-5));
}

// Bottlenecks, with running statistics: batch statistics of so few values would enlarge rounding.
TEST(Resnet, EvaluatesOnTheCpuAsOnTheReference) {
  ResnetCase spec = small(50, 1);
  spec.model.purpose = Purpose::inference;
  ResnetRun reference("reference", spec);
  ResnetRun cpu("cpu", spec, 0, 2);

  reference.loss(Pass::inference);
  cpu.loss(Pass::inference);

  EXPECT_TRUE(test::within(relative_difference(cpu.logits(), reference.logits()), 0.0, 1e-5));
}

// The derivative along the gradient itself, whose value is ‖g‖².
TEST_P(ResnetDepth, HasTheGradientOfItsLoss) {
  ResnetRun run("cpu", small(GetParam(), 4, 64));
  run.lift_above_zero();
  const double loss = run.step() / 4.0;
  const double norm2 = run.device->flat().sum_of_squares(run.gradients.span());
  const auto h = static_cast<float>(0.01 / norm2);
  double at = 0.0;
  const auto loss_at = [&](double to) {
    run.device->flat().axpy(static_cast<float>((to - at) * h), run.gradients.span(), run.parameters.span());
    at = to;
    return run.loss() / 4.0;
  };
  const double far = (loss_at(1.0) - loss_at(-1.0)) / (2.0 * h);
  const double near = (loss_at(0.5) - loss_at(-0.5)) / h;

  // A central difference is off by a multiple of h²: the nearer one by a third of what the two differ by. The
  // losses are rounded, and so are the parameters that move.
  EXPECT_TRUE(test::within(near, norm2, std::abs(far - near) + 64 * test::float_rounding * loss / h));
}

TEST_P(ResnetDepth, GivesTheSameBitsWhenItComputesAgain) {
  ResnetRun keeps("cpu", small(GetParam()));
  const double loss = keeps.step();
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{"blocks"}, {"layer1.0", "layer4"}}) {
    ResnetCase spec = small(GetParam());
    spec.model.recompute = names;
    ResnetRun again("cpu", spec);

    EXPECT_EQ(again.step(), loss) << names.front();
    EXPECT_EQ(again.plain_gradients(), keeps.plain_gradients()) << names.front();
    EXPECT_EQ(again.step_statistics(), keeps.step_statistics()) << names.front();
  }
}

TEST_P(ResnetDepth, EvaluatesInSharedMemoryWithTheSameBits) {
  ResnetRun training("cpu", small(GetParam()));
  ResnetCase spec = small(GetParam());
  spec.model.purpose = Purpose::inference;
  ResnetRun inference("cpu", spec);

  EXPECT_EQ(training.loss(Pass::inference), inference.loss(Pass::inference));
  EXPECT_EQ(training.logits(), inference.logits());
  EXPECT_LT(inference.network->memory().kept_values() + inference.network->memory().shared_values(),
            training.network->memory().kept_values() / 2);
}

TEST(Resnet, HalvesTheActivationsWhenAllBlocksAreComputedAgain) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  ResnetCase spec = small(50, 2, 64);
  const auto keeps = make_resnet(*device, spec);
  spec.model.recompute = {"blocks"};
  const auto again = make_resnet(*device, spec);
  const auto values = [](const Network& network) {
    return network.memory().kept_values() + network.memory().shared_values();
  };

  EXPECT_LT(2 * values(*again), values(*keeps));
}

TEST(Resnet, KnowsWhatRecomputationSaves) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  const auto values = [](const Network& network) {
    return network.memory().kept_values() + network.memory().shared_values();
  };
  for (const std::int64_t depth : {18, 50}) {
    ResnetCase spec = small(depth, 2, 64);
    const auto keeps = make_resnet(*device, spec);
    for (const char* word : {"blocks", "conv1", "layer1", "layer4.1"}) {
      spec.model.recompute = {word};
      const auto again = make_resnet(*device, spec);

      EXPECT_EQ(again->memory().recomputation_saves(), values(*keeps) - values(*again)) << depth << word;
    }
    EXPECT_FALSE(keeps->memory().recomputes());
  }
}

TEST(Resnet, AnnouncesGradientsFromTheEndToTheStart) {
  ResnetRun run("cpu", small(18));
  run.loss();
  std::int64_t end = run.network->layout().size();
  run.network->backward({.labels = run.labels, .valid = 4}, 1.0F, [&](std::int64_t begin) {
    EXPECT_LE(begin, end);
    end = begin;
  });
  EXPECT_EQ(end, 0);
}

TEST(Resnet, NamesTheFirstLayerThatIsNotFinite) {
  ResnetRun run("cpu", small(18));
  run.loss();
  EXPECT_EQ(run.network->first_non_finite(), "");
  for (std::size_t i = 0; i < run.network->layout().slices().size(); ++i)
    if (run.network->layout()[i].name == "layer2.1.bn2.bias")
      run.device->flat().fill(part_of(run.parameters.span(), run.network->layout()[i]),
                              std::numeric_limits<float>::infinity());

  run.loss();

  EXPECT_EQ(run.network->first_non_finite(), "layer2.1");
}

TEST(Resnet, SeesInItsFirstLayerWhatThePoolingHides) {
  for (const std::vector<std::string>& names : std::vector<std::vector<std::string>>{{}, {"conv1"}}) {
    ResnetCase spec = small(18);
    spec.model.recompute = names;
    ResnetRun run("cpu", spec);
    const Slice& bias = run.network->layout()[2];
    ASSERT_EQ(bias.name, "bn1.bias");
    run.device->flat().fill(part_of(run.parameters.span(), bias), std::numeric_limits<float>::quiet_NaN());

    run.step();

    EXPECT_EQ(run.network->first_non_finite(), "conv1");
  }
}

TEST(Resnet, RefusesWhatItCannotBe) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  ResnetCase unknown = small(50);
  unknown.model.depth = 49;
  ResnetCase misspelt = small(18);
  misspelt.model.recompute = {"blocks", "layer5"};

  EXPECT_THROW(make_resnet(*device, unknown), UserError);
  EXPECT_THROW(make_resnet(*device, misspelt), UserError);
  EXPECT_THROW(make_resnet(*device, small(18, 1)), UserError);
}

}  // namespace
}  // namespace flotilla
