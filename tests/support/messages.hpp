// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla::test {

/// The message of the error of this type that `action` throws; empty if it throws none. Errors of other types
/// pass.
template <class Error = UserError, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// Succeeds if `text` holds all of `parts`.
inline testing::AssertionResult mentions(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos)
      return testing::AssertionFailure() << "'" << text << "' does not mention '" << part << "'";
  return testing::AssertionSuccess();
}

}  // namespace flotilla::test
