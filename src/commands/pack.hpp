// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mpi/core/communicator.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

struct PackArguments {
  std::string list;             ///< A list of images, or a folder of class folders
  std::string root;             ///< Folder that the list's paths begin at; empty: found by the list's name
  std::string output;           ///< Folder of the shards
  std::string name;             ///< Of the shards; empty: that of the list without its extension
  std::int64_t shard_mb = 256;  ///< MiB of a shard, at most, up to a sample
};

/// Collective. `flotilla pack`: packs images with their labels into WebDataset's shards, divided over the
/// ranks by shards. Shards that an earlier run has finished are read and left as they are.
/// @throws AgreedFailure with all images that cannot be packed
int pack(const PackArguments& arguments, const mpi::Communicator& world, FailureHandler& failure);

}  // namespace flotilla
