// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernels/build_info.hpp"
#include "kernels/error.hpp"
#include "kernels/kokkos_scope.hpp"
#include "kernels/processor/processor.hpp"
#include "tests/kernels/values.hpp"

namespace flotilla {
namespace {

TEST(MakeDevice, NamesWhatItMade) {
  EXPECT_EQ(make_device({.kind = "cpu", .threads = 2})->name(), "cpu");
  EXPECT_EQ(make_device({.kind = "cpu", .threads = 2})->threads(), 2);
  EXPECT_EQ(make_device({.kind = "reference"})->name(), "reference");
}

TEST(MakeDevice, SaysWhetherItHasWinogradWhereThatIsAllowed) {
  const std::string without = make_device({.kind = "cpu"})->description();
  const std::string with = make_device({.kind = "cpu", .winograd = true})->description();

  EXPECT_EQ(without.find("Winograd"), std::string::npos);
  EXPECT_EQ(with.find(without + ", "), 0U);
  EXPECT_NE(with.find("Winograd"), std::string::npos);
}

TEST(MakeDevice, RefusesCudaNamingTheOption) {
  try {
    make_device({.kind = "cuda"});
    FAIL() << "this build has no CUDA device";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("-DFLOTILLA_CUDA=ON"), std::string::npos);
  }
  EXPECT_THROW(make_device({.kind = "tpu"}), UserError);
  EXPECT_THROW(make_device({.kind = "cpu", .threads = 0}), InternalError);
}

TEST(Device, StagesAHostBatchInPlaceAndKeepsTheShape) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    std::vector<float> host = {1, 2, 3, 4, 5, 6};
    Tensor tensor = device->tensor({2, 3});

    device->stage(host, tensor);

    EXPECT_EQ(tensor.shape(), (Shape{2, 3})) << kind;
    EXPECT_EQ(tensor.span().address(), host.data()) << kind;
    EXPECT_THROW(device->stage(std::span<float>(host).first(5), tensor), InternalError) << kind;
  }
}

TEST(Device, UploadsAndDownloads) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const std::vector<float> host = {1, 2, 3};
    Storage storage = device->allocate(3);

    EXPECT_EQ(test::read(*device, storage), std::vector<float>(3, 0.0F)) << kind;
    device->upload(host, storage.span());

    EXPECT_EQ(test::read(*device, storage), host) << kind;
    EXPECT_THROW(device->upload(std::vector<float>(2), storage.span()), InternalError) << kind;
  }
}

TEST(CpuDevice, TakesDenormalValuesAsZeroOnEveryThread) {
  if (!flush_denormals()) GTEST_SKIP() << "not on this processor";
  const auto device = make_device({.kind = "cpu", .threads = 2});
  Storage x = device->allocate(40000);  // three chunks, for two threads

  device->flat().fill(x.span(), std::numeric_limits<float>::min());
  device->flat().scale(x.span(), 0.5F);

  EXPECT_EQ(test::read(*device, x), std::vector<float>(40000, 0.0F));
}

TEST(BuildInfo, NamesVersions) {
  const BuildInfo info = build_info();

  EXPECT_EQ(std::count(info.onednn.begin(), info.onednn.end(), '.'), 2) << info.onednn;
  EXPECT_EQ(std::count(info.kokkos.begin(), info.kokkos.end(), '.'), 2) << info.kokkos;
  EXPECT_FALSE(info.architecture.empty());
  EXPECT_NO_THROW(check_processor());
}

TEST(KokkosScope, MayBeMadeOnceAtATime) {
  const KokkosScope scope("test");

  EXPECT_THROW(KokkosScope("second"), InternalError);
}

}  // namespace
}  // namespace flotilla
