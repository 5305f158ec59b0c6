// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/roles.hpp"
#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// The message of worker 0 to all ranks before and after training.
struct ControlMessage {
  int exit_code = 0;
  std::string failure{};  ///< Why the workers end here; empty: they do not, or all went well
  std::string content{};
};

/// Collective over all ranks: worker 0's message on each. @throws AgreedFailure on the servers if it reports
/// a failure
ControlMessage broadcast_control(const mpi::RoleCommunicators& roles, const ControlMessage& message);

/// Collective over all ranks: a piece of worker 0's arrays on each.
void broadcast_piece(const mpi::RoleCommunicators& roles, std::span<float> piece);

/// Collective over all ranks: the texts of each, in the order of the ranks.
std::vector<std::string> gather_texts(const mpi::RoleCommunicators& roles, const std::string& mine);

/// The world rank of worker 0, which sends for all workers.
int speaker_of(const mpi::RoleCommunicators& roles);

/// Values of one broadcast when worker 0 sends arrays of any size to the servers piece by piece.
inline constexpr std::size_t fill_piece = std::size_t{1} << 18;

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
