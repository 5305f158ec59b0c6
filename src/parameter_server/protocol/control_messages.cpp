// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/protocol/control_messages.hpp"

#include <nlohmann/json.hpp>

#include "src/checkpoint/state_json.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

int speaker_of(const mpi::RoleCommunicators& roles) {
  return roles.table().ranks(mpi::Role::worker).front();
}

ControlMessage broadcast_control(const mpi::RoleCommunicators& roles, const ControlMessage& message) {
  const int speaker = speaker_of(roles);
  std::string text;
  if (roles.all().rank() == speaker)
    text =
        nlohmann::json{
            {"exit_code", message.exit_code}, {"failure", message.failure}, {"content", message.content}}
            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  roles.all().broadcast(text, speaker);
  const nlohmann::json json = nlohmann::json::parse(text);
  ControlMessage received{.exit_code = json.at("exit_code").get<int>(),
                          .failure = json.at("failure").get<std::string>(),
                          .content = json.at("content").get<std::string>()};
  if (!received.failure.empty() && roles.is_server())
    throw AgreedFailure(received.failure, received.exit_code);
  return received;
}

void broadcast_piece(const mpi::RoleCommunicators& roles, std::span<float> piece) {
  roles.all().broadcast(piece, speaker_of(roles));
}

std::vector<std::string> gather_texts(const mpi::RoleCommunicators& roles, const std::string& mine) {
  return roles.all().all_gather(mine);
}

std::string to_text(const SaveReply& reply) {
  std::string error = reply.error;
  const auto text = [&] {
    return nlohmann::json{{"part", reply.part}, {"error", error}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string made = text();
  if (made.size() > save_reply_bytes) {
    error.resize(save_reply_bytes / 8);
    made = text();
  }
  made.resize(save_reply_bytes, ' ');
  return made;
}

std::string to_text(const SaveCommand& command) {
  return nlohmann::json{{"path", command.path}, {"state", command.state}, {"drop", command.drop}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

SaveCommand save_command_from(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.path = json.at("path").get<std::string>(),
          .state = json.at("state").get<CheckpointState>(),
          .drop = json.at("drop").get<bool>()};
}

SaveReply save_reply_from(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.part = json.at("part").get<CheckpointPart>(), .error = json.at("error").get<std::string>()};
}

}  // namespace flotilla
