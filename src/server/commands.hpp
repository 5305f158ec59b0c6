// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "mpi/push_pull_server.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/server/row_parts.hpp"

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
SaveReply save_reply_from(const std::string& text);

/// A server's hand for commands. What fails is told, not thrown.
class Commands {
 public:
  Commands(RowStore& rows, mpi::PushPullServer& requests) : rows_(rows), requests_(requests) {}
  void carry_out(const mpi::WorkerRequest& request);

 private:
  RowStore& rows_;
  mpi::PushPullServer& requests_;
  std::optional<RowSave> save_;  ///< Has no name yet
};

}  // namespace flotilla
