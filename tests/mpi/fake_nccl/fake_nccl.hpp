// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

// NCCL over MPI, on the streams of whichever CUDA it is linked with: exact sums, and errors on request.
namespace flotilla::test {

/// One collective that this rank has launched.
struct FakeLaunch {
  std::string name;    ///< "all-reduce"
  std::size_t floats;  ///< Count as given in the call
  int communicator;    ///< Numbered from 0 in the order in which this rank made them
  int launch;          ///< Number of the launch, equal for all calls of a group
  friend bool operator==(const FakeLaunch&, const FakeLaunch&) = default;
};

/// What was launched since the last call of this.
std::vector<FakeLaunch> take_fake_launches();

int fake_communicators();  ///< Communicators that this rank has made so far.
int fake_aborts();         ///< Communicators that it gave up with ncclCommAbort.

/// From now on ncclCommGetAsyncError reports a failure of the network. A program whose environment has
/// FLOTILLA_FAKE_NCCL_DOUBLES=N sees that of each communicator alone, from its sum of doubles number N (0:
/// the first) on, which never ends.
void break_fake_network();
void slow_fake_down();  ///< Calls that abort or ask for errors take a while.
/// The next collective is refused by ncclInvalidUsage.
void refuse_next_fake_call();

}  // namespace flotilla::test
