// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
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

}  // namespace flotilla
