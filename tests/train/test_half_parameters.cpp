// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/native_precisions.hpp"
#include "tests/train/half_parameters.hpp"

namespace flotilla::test {
namespace {

struct OnCpu : testing::Test {
  static HalvesDevice device() {
    return {.bfloat16 = {"device.precision=bfloat16"}, .graphs = {}, .float16 = {}};
  }
  void SetUp() override {
    if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OnCpu, HalvesOfParameters, OnCpu);

}  // namespace
}  // namespace flotilla::test
