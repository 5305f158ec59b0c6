// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.hpp"

namespace flotilla::test {

/// A test with a folder of its own, which is empty when it begins.
class InFolder : public testing::Test {
 protected:
  const TemporaryFolder folder;
};

}  // namespace flotilla::test
