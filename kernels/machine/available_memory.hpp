// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace flotilla {

/// Bytes that this process can allocate without swapping: what the kernel reports, or what is left of the
/// limits of its control groups (containers, Slurm jobs; version 1 or 2), if that is less. Reclaimable file
/// cache counts as free.
/// @param root where the folders proc and sys begin
std::int64_t available_memory_bytes(const std::string& root = "");

/// The most memory that this process and others may hold together: the tightest of the limits of its control
/// groups, or all that the machine has. Beyond it the kernel kills a process.
struct MemoryLimit {
  std::string group{};     ///< The folder of the control group; empty: the machine
  std::string identity{};  ///< Equal for the processes of a host that share the limit
  std::int64_t bytes = 0;  ///< The limit, swap included
  std::int64_t left = 0;   ///< Bytes that are not in use now, or are file cache that can be dropped
  std::string text()
      const;  ///< "the control group /sys/fs/cgroup/job, which allows 150 MiB and leaves 104 MiB"
};
MemoryLimit memory_limit(const std::string& root = "");

/// @throws UserError if `bytes` of `what` are more than the limit leaves
void require_memory(const MemoryLimit& limit, std::int64_t bytes, const std::string& what);

/// Bytes that this process may still write into the file system of `path`, memory (/dev/shm) or a disk;
/// nothing where the system does not tell, or the file system has no limit.
std::optional<std::int64_t> free_bytes(const std::string& path);

}  // namespace flotilla
