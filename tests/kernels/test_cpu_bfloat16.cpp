// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "kernels/error.hpp"
#include "kernels/half.hpp"
#include "kernels/host_staging.hpp"
#include "kernels/onednn/native_precisions.hpp"
#include "tests/kernels/values.hpp"

// The device "cpu" in bfloat16, on processors that have it.

namespace flotilla {
namespace {

class CpuBfloat16 : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
    device = make_device({.kind = "cpu", .precision = Precision::bfloat16});
  }

  std::unique_ptr<Device> device;
};

TEST(NativePrecisions, AreFloat32AndPerhapsBfloat16) {
  EXPECT_TRUE(is_native(Precision::float32));
  EXPECT_FALSE(is_native(Precision::float16));
  EXPECT_EQ(is_native(Precision::bfloat16), !native_precisions().bfloat16.empty());
}

TEST(NativePrecisions, OthersAreRefusedNamingWhatThisProcessorHas) {
  const auto mistake = [](Precision precision) -> std::string {
    try {
      make_device({.kind = "cpu", .precision = precision});
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };

  EXPECT_NE(mistake(Precision::float16).find("\"cpu\" computes in float32 and, where"), std::string::npos);
  const std::string refused = mistake(Precision::bfloat16);
  EXPECT_EQ(refused.empty(), is_native(Precision::bfloat16));
  if (!refused.empty()) {
    EXPECT_NE(refused.find("finds " + native_precisions().float32 + " on this one"), std::string::npos);
  }
}

TEST_F(CpuBfloat16, IsWhatTheDeviceSays) {
  EXPECT_EQ(device->info().precision, Precision::bfloat16);
  EXPECT_NE(device->info().description.find(", bfloat16 by " + native_precisions().bfloat16),
            std::string::npos);
}

TEST_F(CpuBfloat16, TwoValuesOfATensorShareAFloat) {
  EXPECT_EQ(device->tensors().floats_of({3, 5}), 8U);
  EXPECT_EQ(device->tensors().zeros({3, 5}).span().size(), 8U);
}

TEST_F(CpuBfloat16, ABatchIsCopiedAndRoundedOnce) {
  std::vector<float> host = test::values(70'001, 1, 3.0);
  host[1] = std::numeric_limits<float>::infinity();
  host[2] = std::numeric_limits<float>::quiet_NaN();
  for (const int threads : {1, 2}) {
    device = make_device({.kind = "cpu", .threads = threads, .precision = Precision::bfloat16});
    Tensor tensor({70'001, 1}, DeviceSpan<float>());

    device->tensors().stage(host, tensor);
    const void* const first = tensor.span().address();
    device->tensors().stage(host, tensor);
    const std::vector<float> found = test::read(*device, tensor);

    EXPECT_EQ(tensor.span().address(), first);
    EXPECT_EQ(found[0], half::rounded(Precision::bfloat16, host[0]));
    EXPECT_EQ(found[1], host[1]);
    EXPECT_TRUE(std::isnan(found[2]));
    for (std::size_t i = 3; i < host.size(); ++i)
      ASSERT_EQ(found[i], half::rounded(Precision::bfloat16, host[i])) << i;
    EXPECT_THROW(device->tensors().stage(std::span<float>(host).first(5), tensor), InternalError);
  }
}

TEST_F(CpuBfloat16, ValuesThatAreNotFiniteAreFound) {
  std::vector<float> values(1'001, -3e38F);

  EXPECT_TRUE(device->tensors().all_finite(test::tensor_of(*device, {1'001}, values)));
  for (const float special :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
        -std::numeric_limits<float>::infinity(), 3.4e38F}) {  // 3.4e38 rounds to infinity
    values[1'000] = special;
    EXPECT_FALSE(device->tensors().all_finite(test::tensor_of(*device, {1'001}, values))) << special;
  }
}

TEST_F(CpuBfloat16, TheHostReadsATensorAsFloats) {
  HostStaging staging(*device, 0);

  const std::span<const float> read = staging.read(test::tensor_of(*device, {3}, {1.0F, 257.0F, -3.0F}));

  EXPECT_EQ(std::vector<float>(read.begin(), read.end()), (std::vector<float>{1.0F, 256.0F, -3.0F}));
}

}  // namespace
}  // namespace flotilla
