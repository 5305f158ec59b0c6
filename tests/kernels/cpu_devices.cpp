// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/tested_devices.hpp"

namespace flotilla::test {

std::vector<TestedDevice> tested_devices() {
  const auto with = [](int threads) -> MakeDevice {
    return [threads] { return make_device({.kind = "cpu", .threads = threads}); };
  };
  return {{"cpu_1_thread", with(1), {with(3)}}, {"cpu_2_threads", with(2), {with(1)}}};
}

}  // namespace flotilla::test
