// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla::test {

/// For programs that ctest does not start: sets what it gives its tests, where it is not set, that is how
/// Open MPI is to run on a small machine.
void complete_environment();

}  // namespace flotilla::test
