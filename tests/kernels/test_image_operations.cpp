// SPDX-License-Identifier: Apache-2.0
// Pooling, residual add, dropout, and the layouts of image tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read_image;
using test::values;

struct Results {
  std::vector<float> y, dx;
};

Results run(Device& device, const Pool2dSpec& spec) {
  const auto plan = device.layers().pool2d(spec);
  const Shape output = plan->output_shape();
  // Few different values, so that windows have several largest ones.
  std::vector<float> inputs = values(spec.input.size(), 1);
  for (float& value : inputs) value = std::round(4.0F * value);
  const Tensor x = test::image_of(device, spec.input, inputs);
  const Tensor dy = test::image_of(device, output, values(output.size(), 2));
  Tensor y = test::stale_image(device, output);
  Tensor dx = test::stale_image(device, spec.input);
  plan->forward(x, y);
  plan->backward(dy, dx);
  return {read_image(device, y), read_image(device, dx)};
}

void expect_agreement(const Pool2dSpec& spec, int threads) {
  SCOPED_TRACE(cat(spec.input.text(), " kind ", static_cast<int>(spec.kind), " kernel ", spec.kernel,
                   " stride ", spec.stride, " padding ", spec.padding, " threads ", threads));
  const auto cpu = make_device({.kind = "cpu", .threads = threads});
  const auto oracle = make_device({.kind = "reference"});

  const Results actual = run(*cpu, spec);
  const Results expected = run(*oracle, spec);

  EXPECT_TRUE(test::within(test::largest_difference(actual.y, expected.y), 0.0, 3e-6));
  EXPECT_TRUE(test::within(test::largest_difference(actual.dx, expected.dx), 0.0, 3e-6));
}

TEST(CpuPool2d, AgreesWithTheReferenceForManyShapes) {
  for (const Pooling kind :
       {Pooling::max, Pooling::average_including_padding, Pooling::average_excluding_padding}) {
    for (const std::int64_t channels : {1, 3, 16, 48}) {
      for (const std::int64_t kernel : {1, 2, 3}) {
        for (const std::int64_t stride : {1, 2}) {
          for (const std::int64_t padding : {std::int64_t{0}, kernel / 2}) {
            const std::int64_t batch = channels == 16 ? 1 : 2;
            expect_agreement({{batch, channels, 9, 8}, kind, kernel, stride, padding}, 2);
          }
        }
      }
    }
    expect_agreement({{2, 64, 28, 28}, kind, 3, 2, 1}, 1);
    expect_agreement({{2, 32, 3, 3}, kind, 3, 1, 0}, 1);
  }
}

TEST(CpuPool2d, AgreesWithTheReferenceForTheGlobalAverage) {
  for (const std::int64_t channels : {1, 3, 16, 48}) {
    expect_agreement({{1, channels, 7, 7}, Pooling::global_average}, 1);
    expect_agreement({{3, channels, 20, 19}, Pooling::global_average}, 2);
    expect_agreement({{2, channels, 1, 1}, Pooling::global_average}, 1);
  }
}

TEST(Pool2d, GivesThePlainRowsThatALinearLayerTakes) {
  const auto device = make_device({.kind = "cpu"});
  const auto plan = device->layers().pool2d({{2, 32, 3, 3}, Pooling::global_average});

  const Tensor y = device->images().tensor(plan->output_shape());

  EXPECT_EQ(y.layout(), nullptr);
  EXPECT_EQ(y.shape(), (Shape{2, 32, 1, 1}));
}

TEST(Pool2d, GivesTheGradientToTheFirstOfTheLargest) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const auto plan = device->layers().pool2d({{1, 1, 2, 4}, Pooling::max, 2, 2, 0});
    const Tensor x = test::image_of(*device, {1, 1, 2, 4}, {1, 5, 2, 2, 5, 0, 2, 2});
    const Tensor dy = test::image_of(*device, {1, 1, 1, 2}, {1, 3});
    Tensor y = device->images().tensor({1, 1, 1, 2});
    Tensor dx = device->images().tensor({1, 1, 2, 4});

    plan->forward(x, y);
    plan->backward(dy, dx);

    EXPECT_EQ(read_image(*device, y), (std::vector<float>{5, 2})) << kind;
    EXPECT_EQ(read_image(*device, dx), (std::vector<float>{0, 1, 3, 0, 0, 0, 0, 0})) << kind;
  }
}

TEST(Pool2d, RefusesWindowsOutsideTheImage) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    EXPECT_THROW(device->layers().pool2d({{1, 1, 4, 4}, Pooling::max, 5, 1, 0}), InternalError);
    EXPECT_THROW(device->layers().pool2d({{1, 1, 4, 4}, Pooling::max, 2, 1, 2}), InternalError);
  }
}

TEST(ImageTensor, KeepsPlainOrderOutside) {
  const auto device = make_device({.kind = "cpu"});
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{2, 16, 4, 5}, Shape{1, 48, 3, 3}, Shape{3, 32, 1, 1}}) {
    const std::vector<float> plain = values(shape.size(), 1);

    const Tensor image = test::image_of(*device, shape, plain);

    EXPECT_EQ(read_image(*device, image), plain) << shape.text();
  }
  EXPECT_EQ(device->images().tensor({2, 3, 4, 5}).layout(), nullptr);  // what Tensors::stage gives fits
}

TEST(ImageTensor, ViewsMemoryAsATensorOfTheShapeLies) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{2, 16, 4, 5}, Shape{3, 32, 1, 1}}) {
      const std::vector<float> plain = values(shape.size(), 1);
      const Tensor owner = test::image_of(*device, shape, plain);
      Storage memory = device->memory().allocate(static_cast<std::size_t>(shape.size()));

      Tensor view = device->images().view(shape, memory.span());
      device->images().upload(plain, view);

      EXPECT_EQ(owner.span().size(), static_cast<std::size_t>(shape.size())) << kind << shape.text();
      EXPECT_EQ(float_values(view).address(), memory.span().address()) << kind << shape.text();
      EXPECT_EQ(test::read(*device, memory), test::read(*device, owner)) << kind << shape.text();
      EXPECT_EQ(read_image(*device, view), plain) << kind << shape.text();
    }
  }
}

TEST(ImageTensor, RefusesAViewOfOtherMemory) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    Storage memory = device->memory().allocate(33);
    EXPECT_THROW(device->images().view({1, 16, 1, 1}, memory.span()), InternalError) << kind;
    EXPECT_THROW(device->images().view({1, 16, 1, 1}, memory.span().subspan(1, 16)), InternalError) << kind;
    EXPECT_NO_THROW(device->images().view({1, 16, 1, 1}, memory.span().subspan(16, 16))) << kind;
  }
}

TEST(CopyAndAdd, LeaveTheirResultInTheSecond) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind, .threads = 2});
    const Shape shape{2, 16, 3, 3};
    const std::vector<float> one = test::values(shape.size(), 1);
    const std::vector<float> other = test::values(shape.size(), 2);
    const Tensor x = test::image_of(*device, shape, one);
    Tensor y = test::image_of(*device, shape, other);

    device->images().add(x, y);

    std::vector<float> sums = one;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += other[i];
    EXPECT_EQ(read_image(*device, y), sums) << kind;
    EXPECT_EQ(read_image(*device, x), one) << kind;
    device->images().copy(x, y);
    EXPECT_EQ(read_image(*device, y), one) << kind;
    Tensor of_other_shape = test::stale_image(*device, {2, 16, 3, 4});
    EXPECT_THROW(device->images().copy(x, of_other_shape), InternalError) << kind;
    EXPECT_THROW(device->images().add(x, of_other_shape), InternalError) << kind;
  }
}

TEST(AddRelu, AndItsGradientAreExact) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const Shape shape{1, 1, 1, 4};
    const Tensor a = test::image_of(*device, shape, {1, -3, 2, 0});
    const Tensor b = test::image_of(*device, shape, {1, 1, -2, 5});
    Tensor y = test::stale_image(*device, shape);
    Tensor dy = test::image_of(*device, shape, {7, 8, 9, 10});

    device->images().add_relu(a, b, y);
    device->images().add_relu_backward(y, dy, dy);

    EXPECT_EQ(read_image(*device, y), (std::vector<float>{2, 0, 0, 5})) << kind;
    EXPECT_EQ(read_image(*device, dy), (std::vector<float>{7, 0, 0, 10})) << kind;
  }
}

std::vector<float> dropped(const char* kind, int threads, const DropoutSpec& spec, std::uint64_t step) {
  const auto device = make_device({.kind = kind, .threads = threads});
  const auto plan = device->layers().dropout(spec);
  Tensor x = test::tensor_of(*device, spec.input,
                             std::vector<float>(static_cast<std::size_t>(spec.input.size()), 3.0F));
  plan->forward(step, x, x);
  return test::read(*device, x);
}

TEST(CpuElementwise, AgreesWithTheReferenceForEveryActivation) {
  for (const Activation f : all_activations) {
    for (const int threads : {1, 2}) {
      const auto cpu = make_device({.kind = "cpu", .threads = threads});
      const auto oracle = make_device({.kind = "reference"});
      const Shape shape{3, 16, 25, 33};  // in the CPU's layout; enough for two threads
      std::vector<std::vector<float>> results;
      for (Device* const device : {cpu.get(), oracle.get()}) {
        std::vector<float> inputs = values(shape.size(), 1);
        for (float& value : inputs) value *= 4.0F;
        const Tensor x = test::image_of(*device, shape, inputs);
        Tensor y = test::stale_image(*device, shape);
        Tensor dx = test::image_of(*device, shape, values(shape.size(), 2));
        const auto plan = device->layers().elementwise({.input = shape, .function = f});
        plan->forward(x, y);
        plan->backward(x, y, dx, dx);
        results.push_back(read_image(*device, y));
        results.push_back(read_image(*device, dx));
      }

      EXPECT_TRUE(test::within(test::largest_difference(results[0], results[2]), 0.0, 3e-6))
          << static_cast<int>(f);
      EXPECT_TRUE(test::within(test::largest_difference(results[1], results[3]), 0.0, 3e-6))
          << static_cast<int>(f);
    }
  }
}

TEST(Elementwise, KeepsNotANumberVisible) {
  for (const std::string kind : {"cpu", "reference"}) {
    for (const Activation f : all_activations) {
      const auto device = make_device({.kind = kind});
      const Shape shape{1, 1, 1, 3};
      const Tensor x = test::image_of(*device, shape, {1.0F, std::nanf(""), -200.0F});
      Tensor y = test::stale_image(*device, shape);

      device->layers().elementwise({.input = shape, .function = f})->forward(x, y);

      const std::vector<float> found = read_image(*device, y);
      EXPECT_TRUE(std::isnan(found[1]) && std::isfinite(found[2])) << kind << static_cast<int>(f);
    }
  }
}

TEST(Dropout, IsAFunctionOfSeedLayerAndStepOnly) {
  const DropoutSpec spec{.input = {331, 101}, .probability = 0.25F, .seed = 7, .layer = 3};
  const std::vector<float> first = dropped("cpu", 1, spec, 11);

  EXPECT_EQ(dropped("cpu", 2, spec, 11), first);
  EXPECT_EQ(dropped("reference", 1, spec, 11), first);
  EXPECT_NE(dropped("cpu", 1, spec, 12), first);
  EXPECT_NE(dropped("cpu", 1, {spec.input, 0.25F, 8, 3}, 11), first);
  EXPECT_NE(dropped("cpu", 1, {spec.input, 0.25F, 7, 4}, 11), first);
}

TEST(Dropout, DropsWithItsProbabilityAndScalesTheRest) {
  const DropoutSpec spec{.input = {99, 101}, .probability = 0.25F, .seed = 7};

  const std::vector<float> result = dropped("cpu", 2, spec, 0);

  const auto zeros = static_cast<double>(std::count(result.begin(), result.end(), 0.0F));
  const auto kept = static_cast<double>(std::count(result.begin(), result.end(), 4.0F));
  EXPECT_EQ(zeros + kept, static_cast<double>(result.size()));
  EXPECT_TRUE(
      test::within(zeros / static_cast<double>(result.size()), 0.25, 5.0 * std::sqrt(0.25 * 0.75 / 9999.0)));
}

TEST(Dropout, BackwardDrawsTheMaskOfForward) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const DropoutSpec spec{.input = {5, 9}, .probability = 0.5F, .seed = 1};
    const auto plan = device->layers().dropout(spec);
    const Tensor ones = test::tensor_of(*device, spec.input, std::vector<float>(45, 1.0F));
    Tensor y = device->tensors().zeros(spec.input);
    Tensor dx = device->tensors().zeros(spec.input);

    plan->forward(4, ones, y);
    plan->backward(4, ones, dx);

    EXPECT_EQ(test::read(*device, dx), test::read(*device, y)) << kind;
    EXPECT_THROW(device->layers().dropout({.input = {5, 9}, .probability = 1.0F}), InternalError);
  }
}

}  // namespace
}  // namespace flotilla
