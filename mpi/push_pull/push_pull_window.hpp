// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

class SharedWindow;

/// Collective over `all`: what workers and servers talk on, a copy.
Communicator push_pull_copy(const Communicator& all);

/// The ranks of `all` on this host.
class HostRanks {
 public:
  explicit HostRanks(const Communicator& all);  ///< Collective.
  bool has(int rank) const;                     ///< @param rank in `all`
  const Communicator& communicator() const { return host_; }
  const std::vector<int>& ranks() const { return ranks_; }  ///< In `all`, ascending

 private:
  Communicator host_;
  std::vector<int> ranks_;
};

/// Memory that the ranks of a host share, addressed by their ranks in a larger group: a worker writes pushed
/// values into its own part and reads pulled values from a server's.
class PushPullWindow {
 public:
  /// Collective over `host`. @param bytes of this rank's part
  /// @throws UserError on all of them if the memory cannot be allocated, naming server.shared_memory
  PushPullWindow(const HostRanks& host, std::size_t bytes);
  PushPullWindow(PushPullWindow&&) = delete;
  ~PushPullWindow();  ///< Nothing while an exception is being thrown.

  std::span<std::byte> mine() const;
  /// To be called before a message that names an offset in the own part: the receiver then sees the data
  /// there.
  static void publish();
  /// The data that such a message names: `bytes` at offset `at` of the part of `rank`, of this host.
  std::span<const std::byte> announced(int rank, std::int64_t at, std::size_t bytes) const;

  /// Rounds up to whole pairs of cache lines, so that data of two writers share none.
  static std::size_t rounded(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

 private:
  std::vector<int> ranks_;
  std::unique_ptr<SharedWindow> window_;
};

}  // namespace flotilla::mpi
