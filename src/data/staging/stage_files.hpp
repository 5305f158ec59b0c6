// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "src/data/staging/stage_plan.hpp"

namespace flotilla {

/// Copies `file` to `copy` by way of a file in `unfinished`, a folder on the same disk: written, read back
/// from the disk, given the time of the original and renamed. Safe from several threads and processes at
/// once.
/// @param copied bytes are added to it on the way  @returns XXH3 of the contents
/// @throws UserError naming file, reason and remedy
std::uint64_t copy_and_verify(const StagedFile& file, const std::string& copy, const std::string& unfinished,
                              std::atomic<std::int64_t>& copied);

std::uint64_t checksum_of_copy(const std::string& path);  ///< XXH3. @throws UserError

/// Removes files from `unfinished` that no process is writing.
void remove_stale_copies(const std::string& unfinished);

/// The result of staging on this host.
struct Staging {
  std::int64_t copied_files = 0;
  std::int64_t copied_bytes = 0;
  std::uint64_t checksum = 0;  ///< Checksum of all files' contents: equal on hosts that have the same data
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
