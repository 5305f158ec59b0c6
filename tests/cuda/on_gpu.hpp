// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "kernels/device_loops/kokkos_scope.hpp"
#include "kernels/gpus.hpp"

namespace flotilla::test {

/// Tests of the CUDA device: linked with the fake GPU (fake/) everywhere, with the real libraries in a build
/// with FLOTILLA_CUDA, where they need a GPU.
class OnGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // The own loops are Kokkos'. It ends with the program.
    static const KokkosScope kokkos;
  }
  void SetUp() override {
    if (visible_gpus().empty()) GTEST_SKIP() << "no GPU here";
  }
};

}  // namespace flotilla::test
