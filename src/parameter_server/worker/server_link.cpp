// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/worker/server_link.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "kernels/error.hpp"
#include "src/parameter_server/protocol/control_messages.hpp"

namespace flotilla {

ServerLink::ServerLink(const mpi::RoleCommunicators& roles, const Config& config,
                       std::vector<mpi::Place> places)
    : roles_(roles), config_(config), places_(std::move(places)) {}

void ServerLink::open(ServePlan plan) {
  require(phase_ == Phase::closed, "servers are opened twice");
  const std::vector<int> servers = roles_.table().ranks(mpi::Role::server);
  plan.folder = folder_;
  plan_ = std::move(plan);
  placement_.emplace(place(plan_, *config_.server(), static_cast<int>(servers.size())));
  broadcast_control(roles_, {.content = to_text(plan_)});
  phase_ = Phase::opened;
  connection_.emplace(roles_.all(), shares_of(plan_, *placement_, servers), wires_of(config_));
}

void ServerLink::fill(std::span<const float> values, std::span<const std::span<const float>> slots,
                      std::int64_t optimizer_steps) {
  require(phase_ == Phase::opened, "servers are filled that were not opened, or twice");
  // Worker 0's count: the others have no slots.
  const ControlMessage message =
      broadcast_control(roles_, {.content = nlohmann::json{{"optimizer_steps", optimizer_steps},
                                                           {"arrays", 1 + slots.size()},
                                                           {"row_files", row_files_}}
                                                .dump()});
  const auto arrays = nlohmann::json::parse(message.content).at("arrays").get<std::size_t>();
  phase_ = Phase::serving;
  const auto leading = static_cast<std::size_t>(plan_.leading);
  const std::size_t size = leading + static_cast<std::size_t>(plan_.layout.size());
  const bool speaks = roles_.same_role().is_root();
  std::vector<float> piece(std::min(fill_piece, size));
  for (std::size_t number = 0; number < arrays; ++number) {
    for (std::size_t begin = 0; begin < size; begin += fill_piece) {
      const auto to = std::span(piece).first(std::min(fill_piece, size - begin));
      for (std::size_t i = 0; speaks && i < to.size(); ++i) {
        const std::size_t at = begin + i;
        if (number == 0) {
          to[i] = values[at];
        } else {
          to[i] = at < leading ? 0.0F : slots[number - 1][at - leading];
        }
      }
      broadcast_piece(roles_, to);
    }
  }
}

/// Sends each server its command. @param failure gets the error of the first server that failed; empty: none
/// @returns the parts in the replies, by server
std::vector<CheckpointPart> ServerLink::command(std::span<const SaveCommand> commands, std::string& failure) {
  std::vector<std::string> texts;
  std::vector<std::string> replies(commands.size(), std::string(save_reply_bytes, ' '));
  std::vector<mpi::Payload> payloads;
  for (const SaveCommand& command : commands) texts.push_back(to_text(command));
  for (std::size_t i = 0; i < commands.size(); ++i)
    payloads.push_back(
        {.out = std::as_bytes(std::span(texts[i])), .back = std::as_writable_bytes(std::span(replies[i]))});
  connection().start_command(commands.front().state.step, payloads);
  connection().wait();
  std::vector<CheckpointPart> parts;
  for (const std::string& text : replies) {
    const SaveReply reply = save_reply_from(text);
    if (failure.empty() && !reply.error.empty()) failure = cat("server ", parts.size(), ": ", reply.error);
    parts.push_back(reply.part);
  }
  return parts;
}

std::vector<CheckpointPart> ServerLink::save_rows(const std::vector<std::string>& paths,
                                                  const CheckpointState& state) {
  std::vector<SaveCommand> saves;
  for (const std::string& path : paths) saves.push_back({.path = path, .state = state});
  std::string failure;
  std::vector<CheckpointPart> parts = command(saves, failure);
  SaveCommand ending;
  ending.state.step = state.step;
  ending.drop = !failure.empty();
  command(std::vector(paths.size(), ending), failure);
  if (!failure.empty()) throw UserError(failure);
  return parts;
}

mpi::PushPullWorker& ServerLink::connection() {
  require(phase_ == Phase::serving, "servers are asked that do not answer yet, or no longer");
  return *connection_;
}

std::vector<std::string> ServerLink::leave() {
  require(phase_ == Phase::serving, "workers leave servers that do not serve");
  connection_->farewell();
  phase_ = Phase::left;
  std::vector<std::string> lines;
  const std::vector<std::string> texts = gather_texts(roles_, {});
  const std::vector<int> servers = roles_.table().ranks(mpi::Role::server);
  for (std::size_t server = 0; server < servers.size(); ++server) {
    std::istringstream stream(texts[static_cast<std::size_t>(servers[server])]);
    for (std::string line; std::getline(stream, line);) lines.push_back(cat("server ", server, ": ", line));
  }
  return lines;
}

void ServerLink::close(int exit_code, const std::string& failure) {
  if (phase_ == Phase::serving) leave();
  broadcast_control(roles_, {.exit_code = exit_code, .failure = failure});
}

std::vector<int> ServerLink::missing_ranks() const {
  std::vector<int> missing;
  if (!connection_) return missing;
  const std::vector<int> servers = roles_.table().ranks(mpi::Role::server);
  for (const int server : connection_->missing_servers())
    missing.push_back(servers[static_cast<std::size_t>(server)]);
  return missing;
}

std::vector<std::string> ServerLink::placement_lines() const {
  return placement_ ? placement_->lines() : std::vector<std::string>();
}

}  // namespace flotilla
