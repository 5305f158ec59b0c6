// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

// What a worker asks servers to do besides training (RequestKind::command): texts of JSON both ways, the
// reply padded with spaces to a length that is known beforehand.

/// "Write your rows as this file, a part of that checkpoint, and keep it without a name." With an empty path:
/// "Give it its name", or with `drop` "Forget it".
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
