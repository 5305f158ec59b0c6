// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "kernels/cpu/device.hpp"
#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/gpu/device.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/processor/processor.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/messages.hpp"

namespace flotilla {
namespace {

TEST(MakeDevice, SaysHowManyThreadsItHas) {
  EXPECT_EQ(make_device({.kind = "cpu", .threads = 2})->info().threads, 2);
}

TEST(MakeDevice, SaysHowManyPassesTakeWinogradsAlgorithm) {
  const Conv2dSpec spec{.input = {4, 64, 28, 28}, .out_channels = 64, .kernel = 3, .padding = 1};
  const auto without = make_device({.kind = "cpu"});
  const auto with = make_device({.kind = "cpu", .winograd = WinogradUse::wherever_possible});
  without->layers().conv2d(spec);
  with->layers().conv2d(spec);
  with->layers().conv2d({.input = {4, 64, 28, 28}, .out_channels = 64, .kernel = 1});

  EXPECT_EQ(with->info().description,
            without->info().description + ", Winograd for 3 of 3 passes of 3x3 convolutions");
}

TEST(MakeDevice, RefusesCudaNamingTheOption) {
  if (cuda_version() != "not built in") GTEST_SKIP() << "this build has a CUDA device";
  EXPECT_TRUE(test::mentions(test::error_of([&] { make_device({.kind = "cuda"}); }), {"-DFLOTILLA_CUDA=ON"}));
  EXPECT_THROW(make_device({.kind = "tpu"}), UserError);
  EXPECT_THROW(make_device({.kind = "cpu", .threads = 0}), InternalError);
}

TEST(Device, StagesAHostBatchAndKeepsTheShape) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    std::vector<float> host = {1, 2, 3, 4, 5, 6};
    Tensor tensor = device->tensors().zeros({2, 3});

    device->tensors().stage(host, tensor);

    EXPECT_EQ(tensor.shape(), (Shape{2, 3})) << kind;
    EXPECT_EQ(float_values(tensor).address() == host.data(), device->info().shares_host_memory) << kind;
    EXPECT_EQ(test::read(*device, tensor), host) << kind;
    EXPECT_THROW(device->tensors().stage(std::span<float>(host).first(5), tensor), InternalError) << kind;
  }
}

TEST(ReferenceDevice, ScalesImagesOfBytes) {
  const auto device = make_device({.kind = "reference"});
  const std::vector<std::uint8_t> bytes = {0, 128, 255, 10, 20, 30, 1, 2, 3, 4, 5, 6};
  const ByteImages images{.pixels = bytes,
                          .shape = {2, 3, 1, 2},
                          .scaling = {.factor = {0.5F, 2.0F, 1.0F}, .offset = {1.0F, -256.0F, 0.0F}}};
  const std::vector<float> expected = {1, 6, 0, -216, 255, 30, 1.5F, 3, -252, -246, 3, 6};

  for (const Shape& shape : {Shape{2, 3, 1, 2}, Shape{2, 6}}) {
    Tensor tensor(shape, DeviceSpan<float>{});

    device->tensors().stage(images, tensor);

    EXPECT_EQ(tensor.shape(), shape);
    EXPECT_EQ(test::read(*device, tensor), expected);
  }
}

TEST(Device, TakesBytesOnlyWhereItSaysSoAndOnlyOnesThatFit) {
  const std::vector<std::uint8_t> bytes(12);
  const ByteImages images{.pixels = bytes, .shape = {2, 3, 1, 2}, .scaling = {}};
  const auto cpu = make_device({.kind = "cpu"});
  const auto reference = make_device({.kind = "reference"});
  Tensor rows({2, 6}, DeviceSpan<float>{});
  Tensor other({3, 4}, DeviceSpan<float>{});
  ByteImages cut = images;
  cut.pixels = cut.pixels.first(11);

  EXPECT_FALSE(cpu->info().stages_bytes);
  EXPECT_THROW(cpu->tensors().stage(images, rows), InternalError);
  EXPECT_TRUE(reference->info().stages_bytes);
  EXPECT_THROW(reference->tensors().stage(images, other), InternalError);
  EXPECT_THROW(reference->tensors().stage(cut, rows), InternalError);
}

TEST(Device, UploadsAndDownloads) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const std::vector<float> host = {1, 2, 3};
    Storage storage = device->memory().allocate(3);

    EXPECT_EQ(test::read(*device, storage), std::vector<float>(3, 0.0F)) << kind;
    device->memory().upload(host, storage.span());

    EXPECT_EQ(test::read(*device, storage), host) << kind;
    EXPECT_THROW(device->memory().upload(std::vector<float>(2), storage.span()), InternalError) << kind;
  }
}

TEST(Device, StagesIntoATensorWithoutMemory) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    std::vector<float> host = {1, 2, 3, 4, 5, 6};
    Tensor tensor({2, 3}, DeviceSpan<float>());

    device->tensors().stage(host, tensor);
    const void* const first = tensor.span().address();
    device->tensors().stage(host, tensor);

    EXPECT_EQ(test::read(*device, tensor), host) << kind;
    EXPECT_EQ(tensor.span().address(), first) << kind;
  }
}

TEST(Device, CopiesBesideComputingFromPinnedMemory) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const auto lane = device->queue().copy_lane();
    Storage storage = test::storage_of(*device, {1, 2, 3});
    Storage pinned = device->memory().pinned(3);
    const std::span<float> host = host_span(pinned.span());

    const CopyLane::Mark mark = lane->mark();
    std::jthread([&] {
      lane->download(mark, storage.span(), host);
      for (float& value : host) value *= 2.0F;
      lane->upload(host, storage.span());
    }).join();

    EXPECT_EQ(test::read(*device, storage), (std::vector<float>{2, 4, 6})) << kind;
  }
}

TEST(ReferenceDevice, HasMemoryThatTheHostCannotReach) {
  const auto device = make_device({.kind = "reference"});
  const Storage storage = test::storage_of(*device, {1, 2, 3});
  EXPECT_FALSE(device->info().shares_host_memory);

  const volatile float* const address = storage.span().address();
  EXPECT_DEATH(static_cast<void>(*address), "");
}

TEST(ReferenceDevice, TakesNoMemoryOfTheHost) {
  const auto device = make_device({.kind = "reference"});
  std::vector<float> host = {1, 2, 3};

  EXPECT_THROW(device->flat().fill(device_span(host), 0.0F), InternalError);
  EXPECT_THROW(device->memory().download(device_span(std::as_const(host)), host), InternalError);
  EXPECT_EQ(host, (std::vector<float>{1, 2, 3}));
}

TEST(CpuDevice, TakesDenormalValuesAsZeroOnEveryThread) {
  if (!flush_denormals()) GTEST_SKIP() << "not on this processor";
  const auto device = make_device({.kind = "cpu", .threads = 2});
  Storage x = device->memory().allocate(40000);  // three chunks, for two threads

  device->flat().fill(x.span(), std::numeric_limits<float>::min());
  device->flat().scale(x.span(), 0.5F);

  EXPECT_EQ(test::read(*device, x), std::vector<float>(40000, 0.0F));
}

TEST(BuildInfo, NamesVersions) {
  const std::string onednn = onednn_version();

  EXPECT_EQ(std::count(onednn.begin(), onednn.end(), '.'), 2) << onednn;
  EXPECT_FALSE(built_for().empty());
}

}  // namespace
}  // namespace flotilla
