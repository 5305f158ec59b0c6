// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/kernels/values.hpp"
#include "tests/support/allocation_count.hpp"

// Counts what the operations of a training step take after the first one.

namespace flotilla {
namespace {

using test::allocations_of_all_threads;

TEST(CpuDevice, AllocatesNothingAfterTheFirstStep) {
  for (const int threads : {1, 2}) {
    const auto device = make_device({.kind = "cpu", .threads = threads});
    const auto linear =
        device->layers().linear({.batch = 64, .in = 300, .out = 300, .activation = Activation::tanh});
    const auto loss = device->layers().softmax_loss({.batch = 64, .classes = 300});
    const auto size = static_cast<std::size_t>(linear->weight_size());
    Storage p = device->memory().allocate(size);
    Storage g = device->memory().allocate(size);
    Storage m = device->memory().allocate(size);
    Storage v = device->memory().allocate(size);
    Storage bias = device->memory().allocate(300);
    Storage sums = device->memory().allocate(loss_sums);
    std::vector<float> host(64 * 300, 0.5F);
    Tensor x = device->tensors().zeros({64, 300});
    Tensor y = device->tensors().zeros({64, 300});
    Tensor dx = device->tensors().zeros({64, 300});
    const std::vector<std::int32_t> labels(64, 3);
    const std::vector<FlatRange> ranges = {{.offset = 0, .count = static_cast<std::int64_t>(size)}};
    std::vector<double> norms(1);
    const auto step = [&](std::int64_t number) {
      device->tensors().stage(host, x);
      linear->forward(x, {p.span(), bias.span()}, y);
      loss->forward(y, {labels, 64}, sums.span());
      loss->backward(y, {labels, 64}, 1.0F, y);
      linear->backward(x, y, {p.span(), bias.span()}, y, {g.span(), bias.span()}, &dx);
      FlatMath& flat = device->flat();
      const UpdateInput in{.parameters = p.span(),
                           .gradients = g.span(),
                           .ranges = ranges,
                           .learning_rate = 0.1F,
                           .step = number};
      flat.norms(p.span(), ranges, norms);
      flat.all_finite(g.span());
      device->updates().update(in, rules::Adam{}, {m.span(), v.span()});
      device->updates().update(in, rules::Nesterov{}, {m.span()});
      flat.scale(g.span(), 0.5F);
    };

    step(1);
    const std::int64_t before = allocations_of_all_threads();
    for (std::int64_t number = 2; number < 6; ++number) step(number);

    EXPECT_EQ(allocations_of_all_threads() - before, 0) << threads << " threads";
  }
}

TEST(CpuDevice, AllocatesNothingInOperationsOnImagesAfterTheFirstStep) {
  for (const bool accumulate : {false, true}) {
    const auto device = make_device({.kind = "cpu", .threads = 2});
    ImageOperations& images = device->images();
    const Shape shape{2, 17, 8, 8};  // 17 channels make the convolution reorder all of its operands
    const auto conv = device->layers().conv2d({.input = shape,
                                               .out_channels = 17,
                                               .kernel = 3,
                                               .padding = 1,
                                               .bias = true,
                                               .accumulate = accumulate});
    const auto norm =
        device->layers().batch_norm({.input = shape, .after = AfterNorm::add_relu, .accumulate = accumulate});
    const auto pool = device->layers().pool2d({shape, Pooling::max, 3, 2, 1});
    const auto average = device->layers().pool2d({shape, Pooling::global_average});
    const auto dropout = device->layers().dropout({.input = {2, 17, 1, 1}, .probability = 0.5F});
    Storage weight = device->memory().allocate(static_cast<std::size_t>(conv->weight_size()));
    Storage dw = device->memory().allocate(static_cast<std::size_t>(conv->weight_size()));
    std::vector<Storage> channels(6);
    for (Storage& storage : channels) storage = device->memory().allocate(17);
    const auto pair = [&](std::size_t first) {
      return ChannelPair<float>{channels[first].span(), channels[first + 1].span()};
    };
    Tensor x = images.tensor(shape);
    Tensor y = images.tensor(shape);
    Tensor dx = images.tensor(shape);
    Tensor pooled = images.tensor(pool->output_shape());
    Tensor averaged = images.tensor(average->output_shape());
    const auto step = [&](std::uint64_t number) {
      conv->forward(x, {weight.span(), channels[0].span()}, y);
      conv->backward_data(y, {weight.span(), channels[0].span()}, dx);
      conv->backward_weights(x, y, {dw.span(), channels[1].span()});
      norm->forward(x, &x, pair(0), pair(2), {pair(4), 0.9F}, y);
      norm->normalise(x, &x, pair(0), pair(2), y);
      norm->backward(x, y, pair(0), pair(2), dx, &dx, pair(4), dx, &y);
      pool->forward(x, pooled);
      pool->backward(pooled, dx);
      average->forward(x, averaged);
      dropout->forward(number, averaged, averaged);
      average->backward(averaged, dx);
      images.add_relu(x, y, y);
      images.add_relu_backward(y, x, dx);
    };

    step(1);
    const std::int64_t before = allocations_of_all_threads();
    for (std::uint64_t number = 2; number < 6; ++number) step(number);

    EXPECT_EQ(allocations_of_all_threads() - before, 0) << (accumulate ? "adding" : "writing");
  }
}

TEST(CpuDevice, CountsTheBytesThatAreAlive) {
  const auto device = make_device({.kind = "cpu"});
  {
    const Storage storage = device->memory().allocate(1000);
    const Tensor tensor = device->tensors().zeros({3, 5});

    EXPECT_EQ(device->memory().allocated_bytes(), 4 * (1000 + 15));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage.span().address()) % 64, 0U);
  }
  EXPECT_EQ(device->memory().allocated_bytes(), 0);
  const auto loss = device->layers().softmax_loss({.batch = 10, .classes = 10});
  EXPECT_GE(device->memory().allocated_bytes(), 400);
}

}  // namespace
}  // namespace flotilla
