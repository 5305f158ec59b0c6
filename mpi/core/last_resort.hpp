// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla::mpi {

/// From now on this process ends by _exit(exit_code) after `seconds`, whatever it is blocked in. Uses
/// SIGALRM: needs neither memory nor a thread. Safe from any thread; the first call counts.
void leave_within(unsigned seconds, int exit_code) noexcept;

}  // namespace flotilla::mpi
