// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

/// Bytes that this process can allocate without swapping: what the kernel reports, or what is left of the
/// limits of its control groups (containers, Slurm jobs; version 1 or 2), if that is less. Reclaimable file
/// cache counts as free.
/// @param root where the folders proc and sys begin
std::int64_t available_memory_bytes(const std::string& root = "");

}  // namespace flotilla
