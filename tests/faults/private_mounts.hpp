// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla::test {

/// Gives this process, and what it starts from now on, mounts of its own, as root or by a user namespace.
/// Before other threads start. @returns why that is not possible here; empty: done.
std::string own_mounts();

/// A disk of its own (a tmpfs) at an existing folder. The functions throw std::system_error.
void mount_disk(const std::string& folder, std::int64_t bytes);
void unmount(const std::string& folder);
/// Nothing below `folder` can be written any more; files in it that are open for writing must be none.
void make_read_only(const std::string& folder);

/// Writes `file` until its disk is full.
void fill_disk(const std::string& file);

}  // namespace flotilla::test
