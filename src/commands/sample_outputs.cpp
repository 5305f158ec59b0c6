// SPDX-License-Identifier: Apache-2.0
#include "src/commands/sample_outputs.hpp"

#include <fmt/format.h>

#include <algorithm>

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

void ClassTable::add(std::span<const float> rows, std::span<const std::int32_t> labels) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> outputs = rows.subspan(row * classes_, classes_);
    const auto label = static_cast<std::size_t>(labels[row]);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(outputs) - outputs.begin());
    ++counts_[2 * label];
    counts_[2 * label + 1] += best == label;
  }
}

std::vector<std::string> ClassTable::lines(const mpi::Communicator& world) const {
  std::vector<std::int64_t> counts = counts_;
  world.all_reduce(std::span<std::int64_t>(counts));
  std::vector<std::string> lines = {fmt::format("{:>8}{:>10}{:>10}", "class", "samples", "top-1")};
  for (std::size_t label = 0; label < classes_; ++label) {
    const std::int64_t samples = counts[2 * label];
    const auto hits = static_cast<double>(counts[2 * label + 1]);
    const std::string share = samples > 0 ? fmt::format("{:.5f}", hits / static_cast<double>(samples)) : "-";
    lines.push_back(fmt::format("{:>8}{:>10}{:>10}", label, samples, share));
  }
  return lines;
}

}  // namespace flotilla
