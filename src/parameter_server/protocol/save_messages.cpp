// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/protocol/save_messages.hpp"

#include <nlohmann/json.hpp>

#include "src/checkpoint/state_json.hpp"

namespace flotilla {

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
