// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "mpi/push_pull_server.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/server/row_store.hpp"

namespace flotilla {

// What a worker asks servers to do besides training (RequestKind::command): texts of JSON both ways, the
// reply padded with spaces to a length that is known beforehand.

/// "Save your rows as this file, which is a part of that checkpoint."
struct SaveCommand {
  std::string path;
  CheckpointState state;
};
struct SaveReply {
  CheckpointPart part;
  std::string error;  ///< Empty: it is there
};

inline constexpr std::size_t save_reply_bytes = 4096;

std::string to_text(const SaveCommand& command);
SaveReply save_reply_from(const std::string& text);

/// Carries out and answers a command. What fails is told, not thrown.
void carry_out(const mpi::WorkerRequest& request, RowStore& rows, mpi::PushPullServer& requests);

}  // namespace flotilla
