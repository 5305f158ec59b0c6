// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/kernels/loops_device.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read;
using test::read_image;
using test::values;

constexpr Precision all_precisions[] = {Precision::float32, Precision::float16, Precision::bfloat16};

struct Pooled {
  std::vector<float> y, dx;
  friend bool operator==(const Pooled&, const Pooled&) = default;
};

/// Values with many that are equal, so that places matter.
Pooled pooled(Device& device, const Pool2dSpec& spec, Precision precision) {
  const auto plan = device.layers().pool2d(spec);
  std::vector<float> inputs = values(spec.input.size(), 1, 4.0);
  for (float& value : inputs) value = std::round(value);
  const Tensor x = test::image_of(device, spec.input, inputs);
  const Tensor dy = test::image_of(device, plan->output_shape(),
                                   test::rounded(precision, values(plan->output_shape().size(), 2)));
  Tensor y = test::stale_image(device, plan->output_shape());
  Tensor dx = test::stale_image(device, spec.input);
  plan->forward(x, y);
  plan->backward(dy, dx);
  return {read_image(device, y), read_image(device, dx)};
}

TEST(LoopsPooling, AgreesWithTheReferenceForManyWindows) {
  for (const Precision precision : all_precisions) {
    const auto loops = test::loops_device(precision);
    const auto oracle = make_device({.kind = "reference"});
    for (const Pooling kind : {Pooling::max, Pooling::average_including_padding,
                               Pooling::average_excluding_padding, Pooling::global_average}) {
      for (const std::int64_t channels : {1, 3, 16, 40}) {
        for (const Pool2dSpec& spec :
             {Pool2dSpec{.input = {2, channels, 9, 8}, .kind = kind, .kernel = 3, .stride = 2, .padding = 1},
              Pool2dSpec{.input = {1, channels, 7, 11}, .kind = kind, .kernel = 2, .stride = 2},
              Pool2dSpec{.input = {2, channels, 6, 5}, .kind = kind, .kernel = 4, .stride = 1, .padding = 2},
              Pool2dSpec{.input = {2, channels, 10, 10}, .kind = kind, .kernel = 2, .stride = 3}}) {
          const Pooled actual = pooled(*loops, spec, precision);
          const Pooled expected = pooled(*oracle, spec, precision);

          // Sums of 80 values of at most 4, rounded once when written.
          const double stored = precision == Precision::float32 ? 0.0 : 2.0 * test::rounding_error(precision);
          const std::string where = cat(spec.input.text(), " kind ", static_cast<int>(kind), " kernel ",
                                        spec.kernel, " precision ", static_cast<int>(precision));
          EXPECT_TRUE(test::within(test::largest_difference(actual.y, expected.y), 0.0, 2e-6 + 4.0 * stored))
              << where;
          EXPECT_TRUE(
              test::within(test::largest_difference(actual.dx, expected.dx), 0.0, 2e-6 + 4.0 * stored))
              << where;
        }
      }
    }
  }
}

TEST(LoopsPooling, GivesTheSameBitsInAnyOrderOfLanes) {
  const auto loops = test::loops_device(Precision::float16);
  for (const Pooling kind : {Pooling::max, Pooling::average_excluding_padding}) {
    const Pool2dSpec spec{.input = {2, 40, 9, 8}, .kind = kind, .kernel = 3, .stride = 2, .padding = 1};
    test::expect_equal_in_any_order([&] { return pooled(*loops, spec, Precision::float16); });
  }
}

TEST(LoopsPooling, GivesTheGradientToTheFirstOfEqualValuesAndToNotANumber) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float least = -std::numeric_limits<float>::infinity();
  const auto device = test::loops_device();
  const auto plan = device->layers().pool2d({.input = {1, 1, 2, 6}, .kernel = 2, .stride = 2});
  const Tensor x = test::image_of(*device, {1, 1, 2, 6},
                                  {1, 3, 2, 9, least, least,  //
                                   3, 3, nan, 5, least, least});
  const Tensor dy = test::image_of(*device, {1, 1, 1, 3}, {1, 2, 4});
  Tensor y = test::stale_image(*device, {1, 1, 1, 3});
  Tensor dx = test::stale_image(*device, {1, 1, 2, 6});

  plan->forward(x, y);
  plan->backward(dy, dx);

  EXPECT_EQ(read_image(*device, y)[0], 3.0F);
  EXPECT_TRUE(std::isnan(read_image(*device, y)[1]));
  EXPECT_EQ(read_image(*device, dx), (std::vector<float>{0, 1, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0}));
}

TEST(LoopsPooling, RefusesAKernelWhosePlacesDoNotFitAByte) {
  const auto device = test::loops_device();
  const Tensor x = device->images().tensor({1, 1, 20, 20});
  Tensor y = device->images().tensor({1, 1, 4, 4});

  EXPECT_THROW(device->layers().pool2d({.input = {1, 1, 20, 20}, .kernel = 17})->forward(x, y),
               InternalError);
}

TEST(LoopsDropout, DrawsTheMaskOfTheReference) {
  for (const Precision precision : all_precisions) {
    for (const std::int64_t columns : {1, 7, 64}) {
      const Shape shape{5, columns};
      const DropoutSpec spec{.input = shape, .probability = 0.3F, .seed = 9, .layer = 2};
      const auto loops = test::loops_device(precision);
      const auto oracle = make_device({.kind = "reference"});
      const std::vector<float> inputs(static_cast<std::size_t>(shape.size()), 1.0F);
      std::vector<std::vector<float>> results;

      for (Device* const device : {loops.get(), oracle.get()}) {
        Tensor x = device->tensors().zeros(shape);
        device->images().upload(inputs, x);
        device->layers().dropout(spec)->forward(77, x, x);
        results.push_back(read_image(*device, x));
      }

      EXPECT_EQ(results[0], test::rounded(precision, results[1])) << columns;
    }
  }
}

TEST(LoopsElementwise, AgreesWithTheReference) {
  for (const Precision precision : all_precisions) {
    for (const Activation f : all_activations) {
      const auto loops = test::loops_device(precision);
      const auto oracle = make_device({.kind = "reference", .precision = precision});
      const Shape shape{2, 5, 3, 3};  // no whole packs
      std::vector<std::vector<float>> results;
      for (Device* const device : {loops.get(), oracle.get()}) {
        const auto image = [&](std::uint64_t stream) {
          return test::image_of(*device, shape, test::rounded(precision, values(shape.size(), stream)));
        };
        const Tensor x = image(1);
        Tensor y = test::stale_image(*device, shape);
        Tensor dx = image(2);
        const auto plan = device->layers().elementwise({.input = shape, .function = f});
        plan->forward(x, y);
        plan->backward(x, y, dx, dx);
        results.push_back(read_image(*device, y));
        results.push_back(read_image(*device, dx));
      }

      // A value that lies on the border of two halves may be rounded to either, and slopes are made of
      // rounded values.
      const double bound = 4.0 * test::rounding_error(precision) + 1e-6;
      EXPECT_TRUE(test::within(test::largest_difference(results[0], results[2]), 0.0, bound))
          << name(precision);
      EXPECT_TRUE(test::within(test::largest_difference(results[1], results[3]), 0.0, bound))
          << name(precision);
    }
  }
}

TEST(LoopsImages, KeepNchwValuesOnTheWayThroughNhwc) {
  for (const Precision precision : all_precisions) {
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{1, 64, 3, 3}, Shape{3, 12, 1, 7}}) {
      const auto device = test::loops_device(precision);
      const std::vector<float> inputs = test::rounded(precision, values(shape.size(), 1));

      EXPECT_EQ(read_image(*device, test::image_of(*device, shape, inputs)), inputs) << shape.text();
    }
  }
}

TEST(LoopsImages, ViewsTakeTheFloatsOfTheirPrecision) {
  const auto device = test::loops_device(Precision::bfloat16);
  Storage memory = device->memory().allocate(16);

  const Tensor view = device->images().view({1, 3, 1, 9}, memory.span().subspan(0, 14));

  EXPECT_EQ(float_values(view).address(), memory.span().address());
  EXPECT_THROW(device->images().view({1, 3, 1, 9}, memory.span()), InternalError);
  EXPECT_THROW(device->images().view({1, 3, 1, 8}, memory.span().subspan(1, 12)), InternalError);
}

// Sums of halves, not of the words that hold two of them.
TEST(LoopsImages, CopyAndAddGiveTheBitsOfTheReference) {
  for (const Precision precision : all_precisions) {
    const auto loops = test::loops_device(precision);
    const auto oracle = make_device({.kind = "reference", .precision = precision});
    const Shape shape{2, 5, 3, 3};  // no whole packs
    std::vector<std::vector<float>> results;
    for (Device* const device : {loops.get(), oracle.get()}) {
      const auto image = [&](std::uint64_t stream) {
        return test::image_of(*device, shape, test::rounded(precision, values(shape.size(), stream)));
      };
      Tensor y = test::stale_image(*device, shape);
      device->images().copy(image(2), y);
      results.push_back(read_image(*device, y));
      device->images().add(image(1), y);
      results.push_back(read_image(*device, y));
    }

    EXPECT_EQ(results[0], results[2]) << name(precision);
    EXPECT_EQ(results[1], results[3]) << name(precision);
  }
}

TEST(LoopsImages, AddReluAgreesWithTheReference) {
  for (const Precision precision : all_precisions) {
    const auto loops = test::loops_device(precision);
    const auto oracle = make_device({.kind = "reference"});
    const Shape shape{2, 5, 3, 3};  // no whole packs
    std::vector<std::vector<float>> results;
    for (Device* const device : {loops.get(), oracle.get()}) {
      const auto image = [&](std::uint64_t stream) {
        return test::image_of(*device, shape, test::rounded(precision, values(shape.size(), stream)));
      };
      Tensor y = test::stale_image(*device, shape);
      Tensor dx = test::stale_image(*device, shape);

      device->images().add_relu(image(1), image(2), y);
      device->images().add_relu_backward(y, image(3), dx);

      results.push_back(read_image(*device, y));
      results.push_back(read_image(*device, dx));
    }

    EXPECT_EQ(results[0], test::rounded(precision, results[2]));
    EXPECT_EQ(results[1], results[3]);
  }
}

}  // namespace
}  // namespace flotilla
