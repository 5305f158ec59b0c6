// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

/// A control group of Linux (a container, a Slurm job): a folder of small files that hold its limits, named
/// differently by versions 1 and 2 (kernel documentation: admin-guide/cgroup-v1, admin-guide/cgroup-v2.rst).
struct ControlGroup {
  int version = 2;
  std::string folder{};  ///< "/sys/fs/cgroup/system.slice/job_7"
};

/// The groups that limit what `controller` ("cpu", "memory") gives to this process: its own and those above.
/// A container may see its own group at the top of /sys/fs/cgroup while /proc names the host's path, so that
/// some of these folders need not be there.
/// @param root in front of /proc and /sys; for tests
std::vector<ControlGroup> control_groups(const std::string& root, std::string_view controller);

}  // namespace flotilla
