// SPDX-License-Identifier: Apache-2.0
#include "src/commands/sample_outputs.hpp"

#include "src/checkpoint/checkpoint.hpp"
#include "src/data/sampler.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

void SampleOutputs::write(const std::string& path, std::int64_t outputs, std::int64_t samples,
                          const mpi::Communicator& world) const {
  std::vector<float> all;
  for (int rank = 0; rank < world.size(); ++rank) {
    const ValidationShard shard = validation_shard(samples, world.size(), rank);
    std::vector<float> part((static_cast<std::size_t>((shard.end - shard.begin) * outputs)));
    if (rank == world.rank()) part = values_;
    world.broadcast(std::span<float>(part), rank);
    if (world.is_root()) all.insert(all.end(), part.begin(), part.end());
  }
  agree(world, [&] {
    if (world.is_root()) write_array(path, "vectors", {samples, outputs}, all);
  });
}

}  // namespace flotilla
