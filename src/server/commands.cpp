// SPDX-License-Identifier: Apache-2.0
#include "src/server/commands.hpp"

#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/checkpoint/state_json.hpp"

namespace flotilla {

namespace {

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

}  // namespace

std::string to_text(const SaveCommand& command) {
  return nlohmann::json{{"path", command.path}, {"state", command.state}, {"drop", command.drop}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

SaveReply save_reply_from(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.part = json.at("part").get<CheckpointPart>(), .error = json.at("error").get<std::string>()};
}

void Commands::carry_out(const mpi::WorkerRequest& request) {
  SaveReply reply;
  try {
    const auto* text = reinterpret_cast<const char*>(request.payload.data());
    const auto json = nlohmann::json::parse(text, text + request.payload.size());
    if (const auto path = json.at("path").get<std::string>(); !path.empty()) {
      save_.reset();
      reply.part = save_.emplace(rows_, path, json.at("state").get<CheckpointState>()).part();
    } else {
      if (save_ && !json.at("drop").get<bool>()) save_->give_name();
      save_.reset();
    }
  } catch (const std::exception& error) {
    save_.reset();
    reply.error = error.what();
  }
  const std::string text = to_text(reply);
  requests_.answer_payload(request.worker, std::as_bytes(std::span(text)));
  requests_.release(request);
}

}  // namespace flotilla
