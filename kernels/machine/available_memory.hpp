// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

/// Bytes that this process can have without swapping: what the kernel reports, or what the control groups
/// that it is in (containers, Slurm jobs; version 1 or 2) leave of their limits, if that is less. File cache
/// that can be dropped counts as free.
/// @param root where the folders proc and sys begin
std::int64_t available_memory_bytes(const std::string& root = "");

}  // namespace flotilla
