// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/native.hpp"
#include "mpi/push_pull/push_pull_parts.hpp"

namespace flotilla::mpi {

/// Of messages that are longer than their buffers MPI itself tells. @throws InternalError if a message that
/// was received is shorter than `wanted` values of `type`
inline void require_whole(const MPI_Status& status, MPI_Datatype type, std::int64_t wanted,
                          const char* what) {
  int count = 0;
  check(MPI_Get_count(&status, type, &count), "MPI_Get_count");
  require(count == wanted, "rank ", status.MPI_SOURCE, " sends ", what, " of ", count, ", not ", wanted);
}

/// The MPI requests of a server, in one list for MPI_Testsome: the receive of the next worker's request, the
/// receives of the slots (one for each place of PushPullParts), and for each worker the receive of a payload,
/// the sends of an answer (one for each place), the send of a payload that answers.
struct PushPullRequests {
  static constexpr std::size_t places = PushPullParts::places;

  PushPullRequests(std::size_t slot_count, std::size_t worker_count)
      : all(1 + places * slot_count + (2 + places) * worker_count, MPI_REQUEST_NULL),
        finished(all.size()),
        statuses(all.size()),
        slots(slot_count),
        workers(worker_count) {}
  MPI_Request& listening() { return all.front(); }
  MPI_Request& of_slot(std::size_t slot, std::size_t place) { return all[1 + places * slot + place]; }
  MPI_Request& of_payload(int worker) { return all[first_payload() + static_cast<std::size_t>(worker)]; }
  std::span<MPI_Request> of_answer(int worker) {
    return std::span(all).subspan(first_answer() + places * static_cast<std::size_t>(worker), places);
  }
  MPI_Request& of_reply(int worker) { return all[first_reply() + static_cast<std::size_t>(worker)]; }
  std::size_t first_payload() const { return 1 + places * slots; }
  std::size_t first_answer() const { return first_payload() + workers; }  ///< Requests before it receive.
  std::size_t first_reply() const { return first_answer() + places * workers; }
  int size() const { return static_cast<int>(all.size()); }

  std::vector<MPI_Request> all;
  std::vector<int> finished;  ///< MPI's lists of them
  std::vector<MPI_Status> statuses;
  std::size_t slots;
  std::size_t workers;
};

}  // namespace flotilla::mpi
