// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "kernels/error.hpp"
#include "kernels/half_rounding.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/kernels/output_losses.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::exact_values;
using test::read;

class CudaDevice : public test::OnGpu {};

TEST_F(CudaDevice, AllocatesZeroedMemoryAndCountsIt) {
  const auto device = test::gpu();
  const std::int64_t before = device->memory().allocated_bytes();

  const Storage storage = device->memory().allocate(1000);

  EXPECT_EQ(read(*device, storage), std::vector<float>(1000, 0.0F));
  EXPECT_EQ(device->memory().allocated_bytes(), before + 4000);
}

TEST_F(CudaDevice, UploadsArraysOfAllSizes) {
  const auto device = test::gpu();
  for (const std::int64_t size : {1, 100, 16384, 16385, 100000}) {
    const std::vector<float> host = exact_values(size, 7);
    Storage storage = device->memory().allocate(host.size());

    device->memory().upload(host, storage.span());

    EXPECT_EQ(read(*device, storage), host) << size;
    EXPECT_THROW(device->memory().upload(std::vector<float>(host.size() + 1), storage.span()), InternalError);
  }
}

TEST_F(CudaDevice, StagesBatchesOfRowsAndOfImages) {
  for (const Precision precision : test::precisions) {
    const auto device = test::gpu({.precision = precision});
    Tensor rows({3, 5}, DeviceSpan<float>{});
    Tensor images({2, 3, 4, 5}, DeviceSpan<float>{});
    for (std::uint64_t step = 0; step < 5; ++step) {
      std::vector<float> row_values = exact_values(15, step);
      Storage pinned = device->memory().pinned(120);
      const std::vector<float> image_values = exact_values(120, step);
      const std::span<float> locked(pinned.span().address(), 120);
      std::copy(image_values.begin(), image_values.end(), locked.begin());

      device->tensors().stage(row_values, rows);
      device->tensors().stage(locked, images);

      EXPECT_EQ(test::values_of(*device, rows), row_values);
      EXPECT_EQ(test::read_image(*device, images), image_values);
      EXPECT_EQ(rows.shape(), (Shape{3, 5}));
    }
    std::vector<float> wrong(14);
    EXPECT_THROW(device->tensors().stage(wrong, rows), InternalError);
  }
}

TEST_F(CudaDevice, ScalesImagesOfBytesAsBatchesOfImagesAndOfRows) {
  const ByteScaling scaling{.factor = {0.017F, 0.02F, 1.0F, -3.1F}, .offset = {-2.1F, 0.3F, 0.0F, 7.7F}};
  for (const Precision precision : test::precisions) {
    const auto device = test::gpu({.precision = precision});
    for (const std::int64_t channels : {1, 3, 4}) {
      const Shape shape{2, channels, 3, 5};
      const auto size = static_cast<std::size_t>(shape.size());
      Tensor images(shape, DeviceSpan<float>{});
      Tensor rows({2, channels * 15}, DeviceSpan<float>{});
      Storage pinned = device->memory().pinned(size);
      const std::span<std::uint8_t> locked(reinterpret_cast<std::uint8_t*>(pinned.span().address()), size);
      for (std::size_t step = 0; step < 5; ++step) {
        std::vector<std::uint8_t> bytes(size);
        for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 + step * 101);
        std::copy(bytes.begin(), bytes.end(), locked.begin());

        device->tensors().stage(ByteImages{.pixels = bytes, .shape = shape, .scaling = scaling}, images);
        device->tensors().stage(ByteImages{.pixels = locked, .shape = shape, .scaling = scaling}, rows);

        std::vector<float> expected(size);
        for (std::size_t i = 0; i < size; ++i) {
          const std::size_t c = i / 15 % static_cast<std::size_t>(channels);
          const std::size_t byte = (i / 15 / static_cast<std::size_t>(channels) * 15 + i % 15) *
                                       static_cast<std::size_t>(channels) +
                                   c;
          expected[i] = half::rounded(
              precision, std::fma(static_cast<float>(bytes[byte]), scaling.factor[c], scaling.offset[c]));
        }
        EXPECT_EQ(test::read_image(*device, images), expected) << channels << " " << name(precision);
        EXPECT_EQ(test::values_of(*device, rows), expected) << channels << " " << name(precision);
      }
    }
    Tensor wrong({2, 14}, DeviceSpan<float>{});
    const std::vector<std::uint8_t> bytes(30);
    EXPECT_TRUE(device->info().stages_bytes);
    EXPECT_THROW(device->tensors().stage(
                     ByteImages{.pixels = bytes, .shape = {2, 1, 3, 5}, .scaling = scaling}, wrong),
                 InternalError);
  }
}

TEST_F(CudaDevice, FindsValuesThatAreNotFinite) {
  for (const Precision precision : test::precisions) {
    const auto device = test::gpu({.precision = precision});
    std::vector<float> host = exact_values(99, 1);
    const Tensor good = test::staged(*device, {9, 11}, host);
    host[57] = std::numeric_limits<float>::infinity();
    const Tensor bad = test::staged(*device, {9, 11}, host);

    EXPECT_TRUE(device->tensors().all_finite(good)) << name(precision);
    EXPECT_FALSE(device->tensors().all_finite(bad)) << name(precision);
  }
}

TEST_F(CudaDevice, CopiesBesideComputingInTheOrderOfMarks) {
  const auto device = test::gpu();
  const auto lane = device->queue().copy_lane();
  Storage data = test::storage_of(*device, {1, 2, 3});
  std::vector<float> seen(3);
  const CopyLane::Mark mark = lane->mark();

  std::thread([&] {
    lane->download(mark, data.span(), seen);
    for (float& value : seen) value *= 10.0F;
    lane->upload(seen, data.span());
  }).join();

  EXPECT_EQ(read(*device, data), (std::vector<float>{10, 20, 30}));
  for (CopyLane::Mark next = 1; next < 200; ++next) EXPECT_EQ(lane->mark(), next);
  EXPECT_THROW(lane->upload(std::vector<float>(2), data.span()), InternalError);
}

TEST_F(CudaDevice, LossAgreesWithTheReference) {
  for (const Precision precision : test::precisions) {
    std::vector<std::vector<float>> sums;
    std::vector<std::vector<float>> gradients;
    for (const char* kind : {"cuda", "reference"}) {
      const auto device = std::string(kind) == "cuda" ? test::gpu({.precision = precision})
                                                      : make_device({.kind = kind, .precision = precision});
      const auto loss = device->layers().softmax_loss({.batch = 6, .classes = 7, .label_smoothing = 0.1F});
      const std::vector<std::int32_t> labels = {0, 6, 3, 2, 2, 5};
      const Targets targets{.labels = labels, .valid = 5};
      std::vector<float> host = exact_values(42, 3);
      const Tensor logits = test::staged(*device, {6, 7}, host);
      Tensor dlogits = device->tensors().zeros({6, 7});
      Storage added = device->memory().allocate(loss_sums);
      loss->forward(logits, targets, added.span());
      loss->backward(logits, targets, 0.5F, dlogits);
      sums.push_back(read(*device, added));
      gradients.push_back(test::values_of(*device, dlogits));
    }

    // Values below 1: one unit in the last place of a half, some in that of a float.
    const double unit = precision == Precision::float32   ? 4e-7
                        : precision == Precision::float16 ? 0x1p-11
                                                          : 0x1p-8;
    EXPECT_TRUE(test::within(test::largest_difference(sums[0], sums[1]), 0.0, 1e-5));
    EXPECT_TRUE(test::within(test::largest_difference(gradients[0], gradients[1]), 0.0, unit));
  }
}

TEST_F(CudaDevice, LossesOfNumbersAgreeWithTheReference) {
  for (const Precision precision : test::precisions) {
    for (const OutputLoss& function : test::all_output_losses) {
      const test::OutputLossCase of{.spec = {6, 7, function}, .valid = 5, .range = 1.0};
      std::vector<test::OutputLossResults> results;
      for (const char* kind : {"cuda", "reference"}) {
        const auto device = std::string(kind) == "cuda" ? test::gpu({.precision = precision})
                                                        : make_device({.kind = kind, .precision = precision});
        results.push_back(test::run_output_loss(
            *device, of, false,
            [&](std::vector<float> host) {
              // Every precision holds them.
              for (float& value : host) value = std::round(value * 16.0F) / 16.0F;
              Tensor made = test::staged(*device, {6, 7}, host);
              device->tensors().finish_staging();
              return made;
            },
            [&](const Tensor& tensor) { return test::values_of(*device, tensor); }));
      }
      const double rounding = precision == Precision::float32   ? 0.0
                              : precision == Precision::float16 ? 0x1p-11
                                                                : 0x1p-8;
      test::expect_same_loss(results[0], results[1], of, rounding);
    }
  }
}

TEST_F(CudaDevice, AnUpdateWritesTheHalvesOfTheParametersInItsRanges) {
  constexpr std::size_t size = 5008;
  const std::array<FlatRange, 2> ranges = {{{.offset = 0, .count = 100}, {.offset = 160, .count = 4800}}};
  for (const Precision precision : {Precision::float16, Precision::bfloat16}) {
    const auto device = test::gpu({.precision = precision});
    Storage parameters = test::storage_of(*device, test::values(size, 1));
    const Storage gradients = test::storage_of(*device, test::values(size, 2));
    Storage made = device->memory().allocate(size);
    const HalfSpan all{reinterpret_cast<std::uint16_t*>(made.span().address()), 2 * size};
    device->tensors().round(parameters.span(), all.subspan(0, size));
    const std::vector<float> before = test::read(*device, made);

    device->updates().update({.parameters = parameters.span(),
                              .gradients = gradients.span(),
                              .ranges = ranges,
                              .learning_rate = 0.3F,
                              .halves = {all.subspan(0, size), precision}},
                             rules::Sgd{}, {});
    device->tensors().round(parameters.span(), all.subspan(size, size));

    const std::vector<float> found = test::read(*device, made);
    constexpr std::size_t bytes = size * sizeof(std::uint16_t);
    EXPECT_EQ(std::memcmp(found.data(), &found[size / 2], bytes), 0) << name(precision);
    EXPECT_NE(std::memcmp(found.data(), before.data(), bytes), 0) << name(precision);
  }
}

}  // namespace
}  // namespace flotilla
