// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/protocol/serve_plan.hpp"

#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/optim/optimizer.hpp"

namespace flotilla {

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
  return {.push = server.wire,
          .pull = mpi::Wire::float32,
          .shared_memory = server.shared_memory,
          .part_values = whole ? 0 : part,
          .together = server.mode == ServerMode::sync};
}

}  // namespace flotilla
