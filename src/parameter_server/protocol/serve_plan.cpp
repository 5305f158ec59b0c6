// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/protocol/serve_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/error.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/observe/console.hpp"
#include "src/optim/optimizer.hpp"

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

std::string to_text(const ServePlan& plan) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const Slice& slice : plan.layout.slices()) {
    nlohmann::json shape = nlohmann::json::array();
    for (int axis = 0; axis < slice.shape.rank(); ++axis) shape.push_back(slice.shape[axis]);
    tensors.push_back({slice.name, shape, static_cast<int>(slice.kind), slice.size});
  }
  return nlohmann::json{{"tensors", tensors},
                        {"leading", plan.leading},
                        {"micro_steps", plan.micro_steps},
                        {"workers", plan.workers},
                        {"folder", plan.folder}}
      .dump();
}

ServePlan plan_from(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  ServePlan plan;
  for (const nlohmann::json& tensor : json.at("tensors")) {
    Shape shape;
    for (const nlohmann::json& extent : tensor.at(1)) shape.append(integer_in(extent));
    plan.layout.add(tensor.at(0).get<std::string>(), shape,
                    static_cast<ParameterKind>(integer_in(tensor.at(2))), integer_in(tensor.at(3)));
  }
  plan.leading = integer_in(json.at("leading"));
  plan.micro_steps = integer_in(json.at("micro_steps"));
  plan.workers = static_cast<int>(integer_in(json.at("workers")));
  json.at("folder").get_to(plan.folder);
  return plan;
}

OptimizerConfig servers_optimizer(const Config& config) {
  OptimizerConfig optimizer = config.optimizer;
  if (config.server()->mode == ServerMode::geo) optimizer.kind = OptimizerKind::sgd;
  return optimizer;
}

Placement place(const ServePlan& plan, const ServerConfig& config, int servers) {
  return {plan.layout,
          servers,
          {.split = config.split,
           .slice_parameters = config.slice_parameters,
           .min_block_size = config.min_block_size}};
}

std::vector<mpi::ServerShare> shares_of(const ServePlan& plan, const Placement& placement,
                                        const std::vector<int>& ranks) {
  require(static_cast<int>(ranks.size()) == placement.servers(), "a placement on ", placement.servers(),
          " servers for ", ranks.size());
  const auto leading = static_cast<std::size_t>(plan.leading);
  std::vector<mpi::ServerShare> shares;
  for (int server = 0; server < placement.servers(); ++server) {
    mpi::ServerShare share{.rank = ranks[static_cast<std::size_t>(server)]};
    if (server == 0) share.runs.push_back({0, leading});
    for (const mpi::SliceBounds& run : placement.runs(server)) {
      if (!share.runs.empty() && share.runs.back().end == leading + run.begin) {
        share.runs.back().end = leading + run.end;
      } else {
        share.runs.push_back({leading + run.begin, leading + run.end});
      }
    }
    shares.push_back(std::move(share));
  }
  return shares;
}

mpi::PushPullWires wires_of(const Config& config) {
  const ServerConfig& server = *config.server();
  const bool clips = server.mode == ServerMode::sync && config.train.gradient_clip_norm > 0.0;
  const bool whole = clips || needs_norms(servers_optimizer(config));
  const auto part = static_cast<std::size_t>(server.part_kb) * 1024 / sizeof(float);
  return {.push = mpi::wire_of(server.wire),
          .pull = mpi::Wire::float32,
          .shared_memory = server.shared_memory,
          .part_values = whole ? 0 : part,
          .together = server.mode == ServerMode::sync};
}

}  // namespace flotilla
