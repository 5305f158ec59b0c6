// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/device.hpp"

// The same tests for every device: a source with tests of an operation is compiled once with cpu_devices.cpp
// and once, where Kokkos is there, with loops_device.cpp, whose tested_devices() it runs on.

namespace flotilla::test {

using MakeDevice = std::function<std::unique_ptr<Device>()>;

/// A device whose operations are compared with those of the reference device.
struct TestedDevice {
  std::string name;  ///< Name of the device in test names
  MakeDevice make;
  /// Devices that must give the same bits: with other threads, or with their lanes in another order.
  std::vector<MakeDevice> alike;

  friend void PrintTo(const TestedDevice& device, std::ostream* out) { *out << device.name; }
};

/// The devices that this executable tests.
std::vector<TestedDevice> tested_devices();

/// For tests of values that were computed by hand, which the reference device must give too.
inline std::vector<TestedDevice> tested_devices_and_reference() {
  std::vector<TestedDevice> all = tested_devices();
  all.push_back({"reference", [] { return make_device({.kind = "reference"}); }, {}});
  return all;
}

inline std::string name_of_device(const testing::TestParamInfo<TestedDevice>& test) {
  return test.param.name;
}

/// A test of each device.
class EachDevice : public testing::TestWithParam<TestedDevice> {
 protected:
  Precision precision() const { return device->info().precision; }

  /// Expects that run(device) gives the same results, of any type, on all devices that compute alike.
  template <class Run>
  void expect_same_bits(const Run& run) {
    const auto first = run(*device);
    for (const MakeDevice& make : GetParam().alike) EXPECT_TRUE(run(*make()) == first);
  }

  const std::unique_ptr<Device> device = GetParam().make();
};

}  // namespace flotilla::test
