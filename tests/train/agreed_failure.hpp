// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kernels/error.hpp"
#include "src/job/failure.hpp"

namespace flotilla::test {

/// The sentence with which all ranks agree to end, with this exit code; empty where `work` goes well.
template <class Work>
std::string failure_of(const Work& work, int exit_code = exit_user_error) {
  try {
    work();
  } catch (const AgreedFailure& failure) {
    EXPECT_EQ(failure.exit_code, exit_code);
    return failure.what();
  }
  return {};
}

}  // namespace flotilla::test
