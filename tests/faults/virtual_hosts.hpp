// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace flotilla::test {

/// Several hosts on this machine, made of namespaces (tests/hosts/hosts.sh); removed at the end.
class VirtualHosts {
 public:
  /// @param slots ranks on each @param folder for what hosts.sh keeps, not there yet
  VirtualHosts(int count, int slots, std::string folder);
  VirtualHosts(const VirtualHosts&) = delete;
  VirtualHosts& operator=(const VirtualHosts&) = delete;
  ~VirtualHosts();

  int count() const { return count_; }
  /// The launcher's first words, instead of mpirun: it becomes the process that was started.
  std::vector<std::string> launcher() const;
  /// The folder in which a host's /dev/shm is visible from here.
  std::string shared_memory(int host) const;

 private:
  std::string process_of(const std::string& host) const;

  int count_;
  std::string folder_;
};

/// The number of hosts that are possible here: 1 without root, iproute2 or namespaces.
int max_hosts();

}  // namespace flotilla::test
