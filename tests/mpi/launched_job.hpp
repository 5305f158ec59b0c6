// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla::test {

struct Outcome {
  int exit_code = -1;
  std::string output{};
};

/// Runs `program` on `ranks` ranks to its end; a word at its end marks its processes, and none of them is
/// left when this returns. A job that hangs is ended by CTest's limit.
Outcome launch(const std::string& program, int ranks, const std::string& arguments);

}  // namespace flotilla::test
