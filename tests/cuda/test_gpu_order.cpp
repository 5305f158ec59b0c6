// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"

/// Calls that return before their work is done: when the host may change what it gave to them.
namespace flotilla {
namespace {

using test::exact_values;
using test::read;

class CudaOrder : public test::OnGpu {};

TEST_F(CudaOrder, AnUploadHasReadTheHostsMemoryWhenItReturns) {
  for (const std::int64_t size : {100, 16384, 100000}) {
    const auto device = test::gpu();
    std::vector<Storage> storages;
    std::vector<float> host;
    for (std::uint64_t i = 0; i < 20; ++i) {  // more than there are slots for small ones
      host = exact_values(size, i);
      storages.push_back(device->memory().allocate(host.size()));
      device->memory().upload(host, storages.back().span());
    }
    std::ranges::fill(host, 0.0F);

    for (std::uint64_t i = 0; i < storages.size(); ++i)
      EXPECT_EQ(read(*device, storages[i]), exact_values(size, i)) << size << " " << i;
  }
}

TEST_F(CudaOrder, BatchesInMemoryThatIsNotLockedMayBeFilledAnewAtOnce) {
  const auto device = test::gpu();
  std::vector<Tensor> tensors;
  std::vector<float> host;
  for (std::uint64_t i = 0; i < 9; ++i) {
    host = exact_values(60, i);
    tensors.emplace_back(Shape{3, 20}, DeviceSpan<float>{});
    device->tensors().stage(host, tensors.back());
  }
  std::ranges::fill(host, 0.0F);

  for (std::uint64_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(test::values_of(*device, tensors[i]), exact_values(60, i)) << i;
}

TEST_F(CudaOrder, BatchesInLockedMemoryMayBeFilledAnewWhenStagingIsFinished) {
  const std::array<std::function<void(Device&)>, 2> waits = {
      [](Device& device) { device.tensors().finish_staging(); },
      [](Device& device) { device.queue().synchronize(); }};
  for (const auto& wait : waits) {
    const auto device = test::gpu();
    std::array<Storage, 2> locked = {device->memory().pinned(64), device->memory().pinned(64)};
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const std::span<float> host(locked[i % 2].span().address(), 60);
      std::ranges::copy(exact_values(60, i), host.begin());
      tensors.emplace_back(Shape{3, 20}, DeviceSpan<float>{});
      device->tensors().stage(host, tensors.back());
      if (i % 2 == 1) wait(*device);
    }

    for (std::uint64_t i = 0; i < tensors.size(); ++i)
      EXPECT_EQ(test::values_of(*device, tensors[i]), exact_values(60, i)) << i;
  }
}

/// The parameters after `update` on a dozen lists of ranges, each of which is uploaded from one array of the
/// host's.
template <class Update>
std::vector<float> updated_by_other_ranges(Device& device, const Update& update) {
  Storage parameters = test::storage_of(device, exact_values(256, 1));
  const Storage gradients = test::storage_of(device, exact_values(256, 2));
  for (std::int64_t i = 0; i < 12; ++i) {
    const std::array<FlatRange, 2> ranges = {
        {{.offset = 16 * i, .count = 16}, {.offset = 208, .count = 48, .rate_factor = 0.5F}}};
    update({.parameters = parameters.span(),
            .gradients = gradients.span(),
            .ranges = ranges,
            .learning_rate = 0.5F});
  }
  device.queue().submit();
  return read(device, parameters);
}

TEST_F(CudaOrder, UpdatesOfOtherRangesComeOneAfterTheOther) {
  const auto updated = [](Device& device) {
    return updated_by_other_ranges(
        device, [&](const UpdateInput& in) { device.updates().update(in, rules::Sgd{}, {}); });
  };
  const auto reference = make_device({.kind = "reference"});
  for (const bool graphs : {false, true})
    EXPECT_EQ(updated(*test::gpu({.graphs = graphs})), updated(*reference)) << graphs;
}

TEST_F(CudaOrder, UpdatesByNormsOfOtherRangesNeedNoWaitBetweenThem) {
  const auto updated = [](bool waits) {
    const auto device = test::gpu();
    return updated_by_other_ranges(*device, [&](const UpdateInput& in) {
      device->updates().update_by_norms(in, {.kind = TrustRatio::Kind::lamb}, rules::Sgd{}, {});
      if (waits) device->queue().synchronize();
    });
  };
  EXPECT_EQ(updated(false), updated(true));
}

// Freed memory is reused by another array at once; its work must run after that of the previous one.
TEST_F(CudaOrder, MemoryIsHandedOutAgainBehindWhatItWasUsedFor) {
  const auto device = test::gpu();
  Storage sums = device->memory().allocate(64);
  for (int i = 1; i <= 20; ++i) {
    Storage passing = device->memory().allocate(64);
    device->flat().fill(passing.span(), static_cast<float>(i));
    device->flat().axpy(1.0F, passing.span(), sums.span());
  }

  EXPECT_EQ(read(*device, sums), std::vector<float>(64, 210.0F));
}

}  // namespace
}  // namespace flotilla
