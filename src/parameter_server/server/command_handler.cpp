// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/command_handler.hpp"

#include <exception>
#include <span>
#include <string>

#include "kernels/error_text.hpp"
#include "src/parameter_server/protocol/save_messages.hpp"

namespace flotilla {

void CommandHandler::carry_out(const mpi::WorkerRequest& request) {
  SaveReply reply;
  try {
    const SaveCommand command = save_command_from(
        std::string(reinterpret_cast<const char*>(request.payload.data()), request.payload.size()));
    if (!command.path.empty()) {
      save_.reset();
      reply.part = save_.emplace(rows_, command.path, command.state).part();
    } else {
      if (save_ && !command.drop) save_->give_name();
      save_.reset();
    }
  } catch (const std::exception& error) {
    save_.reset();
    reply.error = text_of(error);
  }
  const std::string text = to_text(reply);
  requests_.answer_payload(request.worker, std::as_bytes(std::span(text)));
  requests_.release(request);
}

}  // namespace flotilla
