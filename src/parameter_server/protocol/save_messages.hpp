// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

// Commands of a worker to servers outside training (RequestKind::command): JSON texts both ways, the reply
// padded with spaces to a fixed length.

/// Asks a server to write its rows to `path`, under a temporary name, as a part of the checkpoint with
/// `state`. With an empty path: to rename the file, or with `drop` to remove it.
struct SaveCommand {
  std::string path{};
  CheckpointState state{};
  bool drop = false;
};
struct SaveReply {
  CheckpointPart part{};
  std::string error{};  ///< Empty: done
};

inline constexpr std::size_t save_reply_bytes = 4096;

std::string to_text(const SaveCommand& command);
/// @throws nlohmann::json::exception where `text` is no command
SaveCommand save_command_from(const std::string& text);
/// save_reply_bytes characters; an error too long for them is cut.
std::string to_text(const SaveReply& reply);
SaveReply save_reply_from(const std::string& text);

}  // namespace flotilla
