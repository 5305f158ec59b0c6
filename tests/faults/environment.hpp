// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla::test {

/// For programs that ctest does not start: sets the environment variables that ctest gives its tests (options
/// of Open MPI for a small machine), unless they are set.
void complete_environment();

}  // namespace flotilla::test
