// SPDX-License-Identifier: Apache-2.0
#include "src/job/same_data.hpp"

#include <array>
#include <span>

#include "kernels/error.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

void check_same_data(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                     std::int64_t samples, std::string_view key) {
  const std::array<std::int64_t, 1> mine{samples};
  const std::vector<std::int64_t> all = world.all_gather(std::span<const std::int64_t>(mine));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw AgreedFailure(cat(key, " has ", all[rank], " samples on rank ", rank, " (", places[rank].host,
                            "), but ", all[0], " on rank 0 (", places[0].host,
                            "); give all hosts the same files, and start when they are complete"),
                        exit_user_error);
  }
}

}  // namespace flotilla
