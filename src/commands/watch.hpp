// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

struct WatchArguments {
  std::string folder;  ///< run.output of the run, or a folder that is not there yet
  bool once = false;   ///< Print where the run stands, and end
};

/// Prints what the run in a folder reports, until it ends; on a terminal with a last line that is renewed.
/// The run may be on other hosts, or queued.
/// @returns the run's exit code; with `once` 0 while it runs
int watch(const WatchArguments& arguments);

}  // namespace flotilla
