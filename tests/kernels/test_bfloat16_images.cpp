// SPDX-License-Identifier: Apache-2.0
// Batch norm, pooling and sums of images in bfloat16.
#include <cmath>

#include "kernels/error.hpp"
#include "tests/kernels/bfloat16_images.hpp"
#include "tests/kernels/image_layer_runs.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::cpu_with;
using test::expect_neighbours;
using test::halves;
using test::image_of;
using test::make_oracle;
using test::read_image;

using Bfloat16Images = test::Bfloat16Images;
using CpuBfloat16BatchNorm = test::Bfloat16Images;
using CpuBfloat16Pool2d = test::Bfloat16Images;

test::BatchNormResults run(Device& device, const BatchNormSpec& spec, bool two_gradients) {
  return test::run_batch_norm(
      device, {.spec = spec, .precision = Precision::bfloat16, .two_gradients = two_gradients});
}

void expect_agreement(const BatchNormSpec& spec, int threads, bool two_gradients = false) {
  SCOPED_TRACE(cat(spec.input.text(), " after ", static_cast<int>(spec.after), " threads ", threads));
  const test::BatchNormResults actual = run(*cpu_with(threads), spec, two_gradients);
  const test::BatchNormResults expected = run(*make_oracle(), spec, two_gradients);

  // The bounds of float32 (tests/kernels/test_batch_norm.cpp), of values below 4.
  constexpr double bound = 3e-6;
  const double sums_bound = 4.0 * bound * std::sqrt(static_cast<double>(spec.input.size() / spec.input[1]));
  EXPECT_TRUE(test::within(test::largest_difference(actual.mean, expected.mean), 0.0, 1e-6));
  EXPECT_TRUE(test::within(test::largest_difference(actual.variance, expected.variance), 0.0, bound));
  expect_neighbours(actual.y, expected.y, 4.0 * bound, "y");
  expect_neighbours(actual.inferred, expected.inferred, 4.0 * bound, "inferred");
  EXPECT_TRUE(test::within(test::largest_difference(actual.dscale, expected.dscale), 0.0, sums_bound));
  EXPECT_TRUE(test::within(test::largest_difference(actual.dshift, expected.dshift), 0.0, sums_bound));
  expect_neighbours(actual.dx, expected.dx, 16.0 * bound, "dx");
  expect_neighbours(actual.dresidual, expected.dresidual, bound, "dresidual");
}

TEST_F(CpuBfloat16BatchNorm, AgreesWithTheReferenceForManyShapes) {
  for (const AfterNorm after : {AfterNorm::nothing, AfterNorm::relu, AfterNorm::add_relu}) {
    for (const std::int64_t batch : {2, 5}) {
      for (const std::int64_t channels : {1, 3, 16, 40, 131, 256}) {
        expect_agreement({.input = {batch, channels, 5, 7}, .after = after}, 1);
        expect_agreement({.input = {batch, channels, 17, 16}, .after = after}, 2);
      }
    }
    expect_agreement({.input = {16, 32, 1, 1}, .after = after}, 1);
    expect_agreement({.input = {2, 16, 50, 51}, .after = after}, 2);
    expect_agreement({.input = {5, 256, 24, 20}, .after = after}, 2);  // stored past the cache
  }
  expect_agreement({.input = {3, 64, 9, 9}, .after = AfterNorm::add_relu}, 2, true);
}

TEST_F(CpuBfloat16BatchNorm, HasBitsThatDoNotDependOnTheThreads) {
  const BatchNormSpec spec{.input = {4, 192, 30, 30}, .after = AfterNorm::relu};

  EXPECT_TRUE(run(*cpu_with(1), spec, false) == run(*cpu_with(2), spec, false));
}

TEST_F(CpuBfloat16Pool2d, AgreesWithTheReferenceForManyShapes) {
  const auto oracle = make_oracle();
  for (const Pooling kind : {Pooling::max, Pooling::average_including_padding,
                             Pooling::average_excluding_padding, Pooling::global_average}) {
    for (const std::int64_t channels : {1, 3, 16, 48, 131}) {
      for (const std::int64_t kernel : {2, 3}) {
        for (const std::int64_t stride : {1, 2}) {
          const Pool2dSpec spec{{2, channels, 9, 8}, kind, kernel, stride, kernel / 2};
          SCOPED_TRACE(cat(spec.input.text(), " kind ", static_cast<int>(kind), " kernel ", kernel,
                           " stride ", stride));
          const test::Pool2dResults actual = test::run_pool2d(*cpu_with(2), spec, Precision::bfloat16);
          const test::Pool2dResults expected = test::run_pool2d(*oracle, spec, Precision::bfloat16);

          expect_neighbours(actual.y, expected.y, 3e-6, "y");
          expect_neighbours(actual.dx, expected.dx, 3e-6, "dx");
        }
      }
    }
  }
}

TEST_F(Bfloat16Images, KeepPlainOrderOutside) {
  const auto device = cpu_with(1);
  for (const Shape& shape :
       {Shape{2, 3, 4, 5}, Shape{2, 16, 4, 5}, Shape{1, 131, 3, 3}, Shape{3, 32, 1, 1}}) {
    const std::vector<float> plain = halves(shape.size(), 1);

    const Tensor image = image_of(*device, shape, plain);
    Storage memory = device->memory().allocate(device->tensors().floats_of(shape));
    Tensor view = device->images().view(shape, memory.span());
    device->images().copy(image, view);

    EXPECT_EQ(read_image(*device, image), plain) << shape.text();
    EXPECT_EQ(read_image(*device, view), plain) << shape.text();
    EXPECT_THROW(device->images().view(shape, memory.span().subspan(0, memory.size() - 1)), InternalError);
  }
  EXPECT_EQ(device->images().tensor({2, 3, 4, 5}).layout(), nullptr);  // what Tensors::stage gives fits
}

TEST_F(Bfloat16Images, AreAddedAndMaskedAsOnTheReferenceDevice) {
  const Shape shape{2, 48, 30, 31};
  const auto run = [&](Device& device) {
    ImageOperations& images = device.images();
    const Tensor a = image_of(device, shape, halves(shape.size(), 1));
    const Tensor b = image_of(device, shape, halves(shape.size(), 2));
    Tensor y = test::stale_image(device, shape);
    Tensor dx = test::stale_image(device, shape);
    images.add_relu(a, b, y);
    images.add_relu_backward(y, a, dx);
    Tensor sum = image_of(device, shape, halves(shape.size(), 3));
    images.add(y, sum);
    std::vector<float> all = read_image(device, y);
    for (const Tensor* const more : {&dx, &sum}) {
      const std::vector<float> found = read_image(device, *more);
      all.insert(all.end(), found.begin(), found.end());
    }
    return all;
  };

  const std::vector<float> expected = run(*make_oracle());

  EXPECT_EQ(run(*cpu_with(1)), expected);
  EXPECT_EQ(run(*cpu_with(2)), expected);
}

}  // namespace
}  // namespace flotilla
