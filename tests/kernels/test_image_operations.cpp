// SPDX-License-Identifier: Apache-2.0
// Pooling, residual add, elementwise functions, dropout, and the layouts of image tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "tests/kernels/image_layer_runs.hpp"
#include "tests/kernels/tested_devices.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::image_of;
using test::read_image;
using test::rounded;
using test::values;

/// Comparisons with the reference device.
class ImageOperation : public test::EachDevice {
 protected:
  /// Random values that the precision has.
  std::vector<float> values_for(const Shape& shape, std::uint64_t stream, double range = 1.0) const {
    return rounded(precision(), values(shape.size(), stream, range));
  }
  void expect_close(const std::vector<float>& actual, const std::vector<float>& expected,
                    double bound) const {
    EXPECT_TRUE(test::within(test::largest_difference(actual, expected), 0.0, bound));
  }
  void expect_agreement(const Pool2dSpec& spec) {
    SCOPED_TRACE(cat(spec.input.text(), " kind ", static_cast<int>(spec.kind), " kernel ", spec.kernel,
                     " stride ", spec.stride, " padding ", spec.padding));
    const test::Pool2dResults actual = test::run_pool2d(*device, spec, precision());
    const test::Pool2dResults expected = test::run_pool2d(*oracle, spec, precision());

    // Sums of 80 values of at most 4, rounded once when written.
    const double bound = 3e-6 + 4.0 * test::stored_apart(precision());
    expect_close(actual.y, expected.y, bound);
    expect_close(actual.dx, expected.dx, bound);
  }

  const std::unique_ptr<Device> oracle = make_device({.kind = "reference"});
};
INSTANTIATE_TEST_SUITE_P(Devices, ImageOperation, testing::ValuesIn(test::tested_devices()),
                         test::name_of_device);

/// Results that are exact.
using ExactImageOperation = test::EachDevice;
INSTANTIATE_TEST_SUITE_P(Devices, ExactImageOperation,
                         testing::ValuesIn(test::tested_devices_and_reference()), test::name_of_device);

constexpr Pooling window_poolings[] = {Pooling::max, Pooling::average_including_padding,
                                       Pooling::average_excluding_padding};

TEST_P(ImageOperation, PoolingAgreesWithTheReferenceForManyWindows) {
  for (const Pooling kind : window_poolings) {
    for (const std::int64_t channels : {1, 3, 16, 48}) {
      for (const std::int64_t kernel : {1, 2, 3}) {
        for (const std::int64_t stride : {1, 2}) {
          for (const std::int64_t padding : {std::int64_t{0}, kernel / 2}) {
            const std::int64_t batch = channels == 16 ? 1 : 2;
            expect_agreement({{batch, channels, 9, 8}, kind, kernel, stride, padding});
          }
        }
      }
      expect_agreement({{2, channels, 6, 5}, kind, 4, 1, 2});
      expect_agreement({{2, channels, 10, 10}, kind, 2, 3});
    }
    expect_agreement({{2, 64, 28, 28}, kind, 3, 2, 1});
    expect_agreement({{2, 32, 3, 3}, kind, 3, 1, 0});
  }
}

TEST_P(ImageOperation, PoolingAgreesWithTheReferenceForTheGlobalAverage) {
  for (const std::int64_t channels : {1, 3, 16, 48}) {
    expect_agreement({{1, channels, 7, 7}, Pooling::global_average});
    expect_agreement({{3, channels, 20, 19}, Pooling::global_average});
    expect_agreement({{2, channels, 1, 1}, Pooling::global_average});
  }
}

TEST_P(ImageOperation, PoolingGivesTheSameBitsInAnyOrder) {
  for (const Pooling kind : window_poolings)
    expect_same_bits([&](Device& on) {
      return test::run_pool2d(on, {{2, 40, 9, 8}, kind, 3, 2, 1}, precision());
    });
}

TEST(CpuPool2d, GivesThePlainRowsThatALinearLayerTakes) {
  const auto device = make_device({.kind = "cpu"});
  const auto plan = device->layers().pool2d({{2, 32, 3, 3}, Pooling::global_average});

  const Tensor y = device->images().tensor(plan->output_shape());

  EXPECT_EQ(y.layout(), nullptr);
  EXPECT_EQ(y.shape(), (Shape{2, 32, 1, 1}));
}

TEST_P(ExactImageOperation, PoolingGivesTheGradientToTheFirstOfTheLargest) {
  const auto plan = device->layers().pool2d({{1, 1, 2, 4}, Pooling::max, 2, 2, 0});
  const Tensor x = image_of(*device, {1, 1, 2, 4}, {1, 5, 2, 2, 5, 0, 2, 2});
  const Tensor dy = image_of(*device, {1, 1, 1, 2}, {1, 3});
  Tensor y = device->images().tensor({1, 1, 1, 2});
  Tensor dx = device->images().tensor({1, 1, 2, 4});

  plan->forward(x, y);
  plan->backward(dy, dx);

  EXPECT_EQ(read_image(*device, y), (std::vector<float>{5, 2}));
  EXPECT_EQ(read_image(*device, dx), (std::vector<float>{0, 1, 3, 0, 0, 0, 0, 0}));
}

TEST_P(ExactImageOperation, PoolingRefusesWindowsOutsideTheImage) {
  EXPECT_THROW(device->layers().pool2d({{1, 1, 4, 4}, Pooling::max, 5, 1, 0}), InternalError);
  EXPECT_THROW(device->layers().pool2d({{1, 1, 4, 4}, Pooling::max, 2, 1, 2}), InternalError);
}

TEST_P(ImageOperation, TensorsKeepPlainOrderOutside) {
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{2, 16, 4, 5}, Shape{1, 48, 3, 3}, Shape{3, 32, 1, 1},
                             Shape{1, 64, 3, 3}, Shape{3, 12, 1, 7}}) {
    const std::vector<float> plain = values_for(shape, 1);

    EXPECT_EQ(read_image(*device, image_of(*device, shape, plain)), plain) << shape.text();
  }
}

TEST(CpuImageTensor, OfFewChannelsIsWhatStagingGives) {
  EXPECT_EQ(make_device({.kind = "cpu"})->images().tensor({2, 3, 4, 5}).layout(), nullptr);
}

TEST(HostImageTensor, ViewsMemoryAsATensorOfTheShapeLies) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{2, 16, 4, 5}, Shape{3, 32, 1, 1}}) {
      SCOPED_TRACE(cat(kind, " ", shape.text()));
      const std::vector<float> plain = values(shape.size(), 1);
      const Tensor owner = image_of(*device, shape, plain);
      Storage memory = device->memory().allocate(static_cast<std::size_t>(shape.size()));

      Tensor view = device->images().view(shape, memory.span());
      device->images().upload(plain, view);

      EXPECT_EQ(owner.span().size(), static_cast<std::size_t>(shape.size()));
      EXPECT_EQ(float_values(view).address(), memory.span().address());
      EXPECT_EQ(test::read(*device, memory), test::read(*device, owner));
      EXPECT_EQ(read_image(*device, view), plain);
    }
  }
}

TEST(HostImageTensor, RefusesAViewOfOtherMemory) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    Storage memory = device->memory().allocate(33);
    EXPECT_THROW(device->images().view({1, 16, 1, 1}, memory.span()), InternalError) << kind;
    EXPECT_THROW(device->images().view({1, 16, 1, 1}, memory.span().subspan(1, 16)), InternalError) << kind;
    EXPECT_NO_THROW(device->images().view({1, 16, 1, 1}, memory.span().subspan(16, 16))) << kind;
  }
}

// Sums of halves where the device has them, not of the words that hold two of them.
TEST_P(ExactImageOperation, CopyAndAddLeaveTheirResultInTheSecond) {
  for (const Shape& shape : {Shape{2, 16, 3, 3}, Shape{2, 5, 3, 3}}) {
    const std::vector<float> one = rounded(precision(), values(shape.size(), 1));
    const std::vector<float> other = rounded(precision(), values(shape.size(), 2));
    const Tensor x = image_of(*device, shape, one);
    Tensor y = image_of(*device, shape, other);

    device->images().add(x, y);

    std::vector<float> sums = one;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += other[i];
    EXPECT_EQ(read_image(*device, y), rounded(precision(), sums));
    EXPECT_EQ(read_image(*device, x), one);
    device->images().copy(x, y);
    EXPECT_EQ(read_image(*device, y), one);
    Tensor of_other_shape = test::stale_image(*device, {2, 16, 3, 4});
    EXPECT_THROW(device->images().copy(x, of_other_shape), InternalError);
    EXPECT_THROW(device->images().add(x, of_other_shape), InternalError);
  }
}

TEST_P(ExactImageOperation, AddReluAndItsGradientAreExact) {
  const Shape shape{1, 1, 1, 4};
  const Tensor a = image_of(*device, shape, {1, -3, 2, 0});
  const Tensor b = image_of(*device, shape, {1, 1, -2, 5});
  Tensor y = test::stale_image(*device, shape);
  Tensor dy = image_of(*device, shape, {7, 8, 9, 10});

  device->images().add_relu(a, b, y);
  device->images().add_relu_backward(y, dy, dy);

  EXPECT_EQ(read_image(*device, y), (std::vector<float>{2, 0, 0, 5}));
  EXPECT_EQ(read_image(*device, dy), (std::vector<float>{7, 0, 0, 10}));
}

TEST_P(ImageOperation, AddReluRoundsTheSumsOfTheReference) {
  const Shape shape{2, 5, 3, 3};  // no whole packs
  const auto run = [&](Device& on) {
    Tensor y = test::stale_image(on, shape);
    Tensor dx = test::stale_image(on, shape);
    on.images().add_relu(image_of(on, shape, values_for(shape, 1)), image_of(on, shape, values_for(shape, 2)),
                         y);
    on.images().add_relu_backward(y, image_of(on, shape, values_for(shape, 3)), dx);
    return std::pair(read_image(on, y), read_image(on, dx));
  };
  const auto [y, dx] = run(*device);
  const auto [expected_y, expected_dx] = run(*oracle);

  EXPECT_EQ(y, rounded(precision(), expected_y));
  EXPECT_EQ(dx, expected_dx);
}

TEST_P(ImageOperation, ElementwiseAgreesWithTheReferenceForEveryActivation) {
  // A value that lies on the border of two halves may be rounded to either, and slopes are made of rounded
  // values.
  const double bound = is_half(precision()) ? 4.0 * test::rounding_error(precision()) + 1e-6 : 3e-6;
  const auto rounding_oracle = make_device({.kind = "reference", .precision = precision()});
  for (const Activation f : all_activations) {
    // The first shape has the CPU's layout and enough work for two threads; the second has no whole packs.
    for (const Shape& shape : {Shape{3, 16, 25, 33}, Shape{2, 5, 3, 3}}) {
      SCOPED_TRACE(cat(shape.text(), " f ", static_cast<int>(f)));
      const auto run = [&](Device& on) {
        const Tensor x = image_of(on, shape, values_for(shape, 1, is_half(precision()) ? 1.0 : 4.0));
        Tensor y = test::stale_image(on, shape);
        Tensor dx = image_of(on, shape, values_for(shape, 2));
        const auto plan = on.layers().elementwise({.input = shape, .function = f});
        plan->forward(x, y);
        plan->backward(x, y, dx, dx);
        return std::pair(read_image(on, y), read_image(on, dx));
      };
      const auto [y, dx] = run(*device);
      const auto [expected_y, expected_dx] = run(*rounding_oracle);

      expect_close(y, expected_y, bound);
      expect_close(dx, expected_dx, bound);
    }
  }
}

TEST_P(ExactImageOperation, ElementwiseKeepsNotANumberVisible) {
  for (const Activation f : all_activations) {
    const Shape shape{1, 1, 1, 3};
    const Tensor x = image_of(*device, shape, {1.0F, std::nanf(""), -200.0F});
    Tensor y = test::stale_image(*device, shape);

    device->layers().elementwise({.input = shape, .function = f})->forward(x, y);

    const std::vector<float> found = read_image(*device, y);
    EXPECT_TRUE(std::isnan(found[1]) && std::isfinite(found[2])) << static_cast<int>(f);
  }
}

std::vector<float> dropped(Device& device, const DropoutSpec& spec, std::uint64_t step) {
  Tensor x = device.tensors().zeros(spec.input);
  device.images().upload(test::filled(spec.input.size(), 3.0F), x);
  device.layers().dropout(spec)->forward(step, x, x);
  return read_image(device, x);
}

TEST_P(ImageOperation, DropoutIsAFunctionOfSeedLayerAndStepOnly) {
  for (const std::int64_t columns : {1, 7, 64, 101}) {
    const DropoutSpec spec{.input = {331, columns}, .probability = 0.3F, .seed = 7, .layer = 3};
    const std::vector<float> first = dropped(*device, spec, 11);

    EXPECT_EQ(first, rounded(precision(), dropped(*oracle, spec, 11))) << columns;
    EXPECT_NE(dropped(*device, spec, 12), first);
    EXPECT_NE(dropped(*device, {spec.input, 0.3F, 8, 3}, 11), first);
    EXPECT_NE(dropped(*device, {spec.input, 0.3F, 7, 4}, 11), first);
  }
}

TEST_P(ImageOperation, DropoutDropsWithItsProbabilityAndScalesTheRest) {
  const std::vector<float> result = dropped(*device, {{99, 101}, 0.25F, 7}, 0);

  const auto zeros = static_cast<double>(std::ranges::count(result, 0.0F));
  const auto kept = static_cast<double>(std::ranges::count(result, 4.0F));
  EXPECT_EQ(zeros + kept, static_cast<double>(result.size()));
  EXPECT_TRUE(
      test::within(zeros / static_cast<double>(result.size()), 0.25, 5.0 * std::sqrt(0.25 * 0.75 / 9999.0)));
}

TEST_P(ExactImageOperation, DropoutDrawsTheMaskOfForwardInBackward) {
  const DropoutSpec spec{.input = {5, 9}, .probability = 0.5F, .seed = 1};
  const auto plan = device->layers().dropout(spec);
  Tensor ones = device->tensors().zeros(spec.input);
  device->images().upload(test::filled(45, 1.0F), ones);
  Tensor y = device->tensors().zeros(spec.input);
  Tensor dx = device->tensors().zeros(spec.input);

  plan->forward(4, ones, y);
  plan->backward(4, ones, dx);

  EXPECT_EQ(read_image(*device, dx), read_image(*device, y));
  EXPECT_THROW(device->layers().dropout({.input = {5, 9}, .probability = 1.0F}), InternalError);
}

}  // namespace
}  // namespace flotilla
