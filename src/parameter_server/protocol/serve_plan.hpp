// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/arena.hpp"
#include "mpi/core/slices.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"
#include "src/config/config.hpp"

namespace flotilla {

struct PlacementOptions {
  Split split = Split::round_robin;
  bool slice_parameters = true;  ///< false: every tensor is one block.
  std::int64_t min_block_size =
      8192;  ///< Values. A tensor is cut into blocks of at least as many, or is whole.
};

/// Whole rows of a tensor that one server owns.
struct Block {
  std::string name;         ///< The tensor's name; followed by ".block<i>" if the tensor has several blocks
  std::size_t tensor = 0;   ///< Index in the layout
  std::int64_t offset = 0;  ///< Offset in the arena, in floats
  std::int64_t size = 0;    ///< Floats
  int server = 0;
};

/// The assignment of an arena's parts to servers. A pure function of its arguments, equal on every rank.
class Placement {
 public:
  /// Places blocks as PaddlePaddle's Fleet does: a tensor of n values makes min(servers, n ÷ min_block_size)
  /// blocks of equally many values, rounded up to whole rows (all dimensions after the first), the last with
  /// what is left. If the device pads a tensor, 64 bytes count as a row.
  Placement(const ArenaLayout& layout, int servers, const PlacementOptions& options);

  int servers() const { return static_cast<int>(values_.size()); }
  const std::vector<Block>& blocks() const { return blocks_; }  ///< In the arena's order, without gaps.
  /// The ranges of a server, ascending, in floats of the arena; neighbouring blocks are one range, with the
  /// padding between them. May be empty.
  std::vector<mpi::SliceBounds> runs(int server) const;
  std::int64_t values(int server) const { return values_[static_cast<std::size_t>(server)]; }
  /// The largest share ÷ the mean one; 1 is perfect, servers() is one server for all.
  double imbalance() const;
  /// A line for each server, with its blocks and bytes, and one for the balance.
  std::vector<std::string> lines() const;

 private:
  std::vector<Block> blocks_;
  std::vector<std::int64_t> values_;  ///< Values of each server
};

/// 64-bit FNV-1a (Fowler, Noll, Vo): from 14695981039346656037, for each byte: xor, then times 1099511628211.
/// Fixed on all machines and in all versions, so that blocks of a checkpoint find their servers again.
std::uint64_t fnv1a(std::string_view text);

/// The facts about the model that servers need. Only workers make the model: a server opens no data.
///
/// Messages are laid out as a worker's gradient array (src/strategy/buckets.hpp): `leading` floats
/// (header and statistics), which are server 0's, then the parameters.
struct ServePlan {
  ArenaLayout layout{};          ///< Layout of the parameters
  std::int64_t leading = 0;      ///< Floats
  std::int64_t micro_steps = 1;  ///< Micro-steps of a worker's step, whose statistics add up
  int workers = 1;
  std::string folder{};  ///< The run's folder, for failure.json; empty: none
};

std::string to_text(const ServePlan& plan);
ServePlan plan_from(const std::string& text);

/// The optimizer of the servers: with geo the workers keep the deck's optimizer and its state.
OptimizerConfig servers_optimizer(const Config& config);

Placement place(const ServePlan& plan, const ServerConfig& config, int servers);

/// The part of the messages' arrays that each server owns. @param ranks of the servers, by index
std::vector<mpi::ServerShare> shares_of(const ServePlan& plan, const Placement& placement,
                                        const std::vector<int>& ranks);

/// The format of values in messages: in parts, unless an update needs norms of whole tensors.
mpi::PushPullWires wires_of(const Config& config);

}  // namespace flotilla
