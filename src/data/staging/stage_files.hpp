// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/data/staging/stage_plan.hpp"

namespace flotilla {

/// What staging did on this host.
struct Staging {
  std::int64_t copied_files = 0;
  std::int64_t copied_bytes = 0;
  std::uint64_t checksum = 0;  ///< Of all files' contents: equal on hosts that have the same data
};

struct StagingOptions {
  int threads = 4;
  /// Called ten times a second from the calling thread, with bytes that were copied and that are to be.
  std::function<void(std::int64_t, std::int64_t)> progress{};
};

/// Copies the files of `plan` below `folder` + "/" + plan.name(), except those that are there, of the size
/// and time of the original. A copy has another name until it was read back from the disk and has the
/// checksum of what was read (XXH3); so several jobs may stage at once, and one that was killed goes on
/// later. What killed jobs left half done is removed.
/// @throws UserError naming file, reason and remedy; before it copies if the disk has not enough room
Staging stage_files(const StagePlan& plan, const std::string& folder, const StagingOptions& options = {});

}  // namespace flotilla
