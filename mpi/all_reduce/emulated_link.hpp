// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "mpi/all_reduce/all_reduce_kind.hpp"
#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// What one all-reduce asks of a rank's link.
struct LinkUse {
  int messages = 0;       ///< One after another, each waits for the one before
  std::size_t bytes = 0;  ///< One after another, of values
};

/// The link of this rank to the others, which is slower than the real one. From any thread.
class EmulatedLink {
 public:
  /// @param sharers ranks that send over the same link at the same times; this one gets its part of the rate
  EmulatedLink(const LinkModel& model, std::uint64_t seed, int sharers)
      : model_(model), seed_(seed), sharers_(sharers) {}

  /// When what is sent from `begin_ns` on has arrived: after what other calls have sent before. @param call
  /// its number, from which its jitter follows
  std::int64_t arrival_ns(std::int64_t begin_ns, const LinkUse& use, std::uint64_t call);
  /// Numbers all-reduces that use the link, in one order on every rank.
  std::uint64_t next_user() { return users_++; }

 private:
  double latency_ns(std::uint64_t call) const;

  LinkModel model_;
  std::uint64_t seed_;
  int sharers_;
  std::uint64_t users_ = 0;
  std::mutex mutex_;
  double at_rest_ns_ = 0.0;  ///< When all is sent and a burst is allowed again
};

/// What an all-reduce over `ranks` asks: MPI_Allreduce, as Open MPI 4 does it, or with another wire or order
/// our own.
LinkUse link_use(int ranks, const Collectives& sums, std::size_t count, Wire wire, SumOrder order);

/// Collective over `group`, whose ranks `sums` adds up. Each sum takes as long as over the link: the ranks
/// meet, add, and sleep for what is left of the time. Without a link, or with one rank: `sums`. The link must
/// outlive the result.
std::unique_ptr<Collectives> make_slowed_all_reduce(const Communicator& group,
                                                    std::unique_ptr<Collectives> sums, EmulatedLink* link,
                                                    Wire wire, SumOrder order);

/// "0.1 Gbit/s, latency 50 us, burst 256 KiB, jitter 0.5"
std::string describe(const LinkModel& link);

}  // namespace flotilla::mpi
