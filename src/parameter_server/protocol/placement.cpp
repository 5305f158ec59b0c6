// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/protocol/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernels/error.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Values of each block but the last: whole rows; at most one block per server, none below min_block_size.
std::int64_t block_size(const Slice& tensor, int servers, const PlacementOptions& options) {
  const std::int64_t values = tensor.size;
  if (!options.slice_parameters) return values;
  const std::int64_t row = tensor.size != tensor.shape.size() ? ArenaLayout::alignment
                           : tensor.shape.rank() < 2          ? 1
                                                              : values / tensor.shape[0];
  const std::int64_t most = std::max<std::int64_t>(1, values / options.min_block_size);
  const std::int64_t size = ceil_divide(values, std::min<std::int64_t>(servers, most));
  return ceil_divide(size, row) * row;
}

}  // namespace

Placement::Placement(const ArenaLayout& layout, int servers, const PlacementOptions& options)
    : values_(static_cast<std::size_t>(std::max(0, servers))) {
  require(servers > 0 && options.min_block_size > 0, "a placement on ", servers, " servers in blocks of ",
          options.min_block_size);
  int next = 0;
  for (std::size_t i = 0; i < layout.slices().size(); ++i) {
    const Slice& tensor = layout[i];
    const std::int64_t values = tensor.size;
    if (values == 0) continue;
    const std::int64_t size = block_size(tensor, servers, options);
    const bool whole = size >= values;
    for (std::int64_t begin = 0; begin < values; begin += size) {
      Block block{.name = whole ? tensor.name : cat(tensor.name, ".block", begin / size),
                  .tensor = i,
                  .offset = tensor.offset + begin,
                  .size = std::min(size, values - begin)};
      if (options.split == Split::round_robin) {
        block.server = next;
        next = (next + 1) % servers;
      } else {
        block.server = static_cast<int>(fnv1a(block.name) % static_cast<std::uint64_t>(servers));
      }
      values_[static_cast<std::size_t>(block.server)] += block.size;
      blocks_.push_back(std::move(block));
    }
  }
}

std::vector<mpi::SliceBounds> Placement::runs(int server) const {
  require(0 <= server && server < servers(), "there is no server ", server);
  std::vector<mpi::SliceBounds> runs;
  bool neighbours = false;  // No other server's block came since.
  for (const Block& block : blocks_) {
    if (block.server != server) {
      neighbours = false;
      continue;
    }
    const auto end = static_cast<std::size_t>(block.offset + block.size);
    if (neighbours) {
      runs.back().end = end;
    } else {
      runs.push_back({static_cast<std::size_t>(block.offset), end});
    }
    neighbours = true;
  }
  return runs;
}

double Placement::imbalance() const {
  const std::int64_t all = std::accumulate(values_.begin(), values_.end(), std::int64_t{0});
  if (all == 0) return 1.0;
  return static_cast<double>(*std::ranges::max_element(values_)) * static_cast<double>(servers()) /
         static_cast<double>(all);
}

std::vector<std::string> Placement::lines() const {
  std::vector<std::string> lines;
  for (int server = 0; server < servers(); ++server) {
    const auto blocks = std::ranges::count(blocks_, server, &Block::server);
    lines.push_back(fmt::format("server {}: {} block{}, {}", server, blocks, blocks == 1 ? "" : "s",
                                bytes_text(values(server) * static_cast<std::int64_t>(sizeof(float)))));
  }
  lines.push_back(fmt::format("largest ÷ mean: {:.2f}", imbalance()));
  return lines;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace flotilla
