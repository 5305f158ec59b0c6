// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "kernels/gpu/loops/kokkos_scope.hpp"
#include "kernels/gpus.hpp"

namespace flotilla::test {

/// The own loops are Kokkos', which must end before the CUDA library does at the end of main.
class KokkosOfTests : public testing::Environment {
 public:
  void SetUp() override { scope_.emplace(); }
  void TearDown() override { scope_.reset(); }

 private:
  std::optional<KokkosScope> scope_;
};

inline testing::Environment* const kokkos_of_tests = testing::AddGlobalTestEnvironment(new KokkosOfTests);

/// Tests of the CUDA device: linked with the fake GPU (fake/) everywhere, with the real libraries in a build
/// with FLOTILLA_CUDA, where they need a GPU.
class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (visible_gpus().empty()) GTEST_SKIP() << "no GPU here";
  }
};

}  // namespace flotilla::test
