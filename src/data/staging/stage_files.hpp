// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/data/staging/stage_plan.hpp"

namespace flotilla {

/// The result of staging on this host.
struct Staging {
  std::int64_t copied_files = 0;
  std::int64_t copied_bytes = 0;
  std::uint64_t checksum = 0;  ///< Of all files' contents: equal on hosts that have the same data
};

struct StagingOptions {
  int threads = 4;
  /// Called ten times a second from the calling thread, with the bytes copied and the total.
  std::function<void(std::int64_t, std::int64_t)> progress{};
};

/// Copies the files of `plan` below `folder` + "/" + plan.name(), except copies that exist with the size and
/// time of the original. A copy has a temporary name until it was read back from the disk with the checksum
/// of the original (XXH3); so several jobs may stage at once, and a killed one continues later. Unfinished
/// copies of killed jobs are removed.
/// @throws UserError naming file, reason and remedy; before it copies if the disk has not enough room
Staging stage_files(const StagePlan& plan, const std::string& folder, const StagingOptions& options = {});

}  // namespace flotilla
