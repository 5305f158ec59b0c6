// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "mpi/core/native.hpp"
#include "mpi/push_pull/push_pull.hpp"

namespace flotilla::mpi {

/// Buffers that no message needs, for the next ones that do.
class SpareBuffers {
 public:
  explicit SpareBuffers(std::size_t most) { spare_.reserve(most); }
  /// Puts a spare one in the place of an empty buffer. @returns the beginning of `bytes` bytes in it
  std::byte* take(std::vector<std::byte>& buffer, std::size_t bytes) {
    if (buffer.empty() && !spare_.empty()) {
      buffer = std::move(spare_.back());
      spare_.pop_back();
    }
    return grown(buffer, bytes);
  }
  void give_back(std::vector<std::byte>& buffer) {
    if (!buffer.empty()) spare_.push_back(std::exchange(buffer, {}));
  }

 private:
  std::vector<std::vector<std::byte>> spare_;
};

/// The MPI requests of a server, the receive of the next worker's request and then for each worker those of
/// Part, and its spare buffers.
struct PushPullRequests {
  /// Receives, then sends; for values one for each place of PushPullParts.
  enum Part : std::size_t {
    payload,
    push,
    reply = push + PushPullParts::places,
    answer,
    parts = answer + PushPullParts::places
  };
  /// MPI is asked about so many at a time, the first among them and the others in turn: the time of a poll
  /// does not grow with the number of workers.
  static constexpr std::size_t most_tested = 64;

  explicit PushPullRequests(std::size_t workers)
      : all(1 + workers * parts, MPI_REQUEST_NULL),
        listed(all.size()),
        values(workers),
        payloads(2 * workers),
        copies(workers) {
    outstanding.reserve(all.size());
  }
  static std::size_t index(int worker, std::size_t part) {
    return 1 + static_cast<std::size_t>(worker) * parts + part;
  }
  MPI_Request& of(int worker, std::size_t part) { return all[index(worker, part)]; }
  /// The request that is about to begin.
  MPI_Request& begin(int worker, std::size_t part) {
    if (!listed[index(worker, part)]) outstanding.push_back(index(worker, part));
    listed[index(worker, part)] = true;
    return of(worker, part);
  }

  PushPullRequest arriving;  ///< The head that the first request receives
  std::vector<MPI_Request> all;
  std::vector<std::size_t> outstanding;  ///< Indices, without the first; some may be over
  std::vector<bool> listed;              ///< By index: it is outstanding
  std::size_t turn = 0;                  ///< The outstanding ones before it have not had their turn yet
  SpareBuffers values;
  SpareBuffers payloads;  ///< Both ways
  SpareBuffers copies;    ///< Of answers
};

}  // namespace flotilla::mpi
