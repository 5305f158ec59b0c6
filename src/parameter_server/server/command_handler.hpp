// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "mpi/push_pull/push_pull_server.hpp"
#include "src/parameter_server/server/row_parts.hpp"
#include "src/parameter_server/server/row_store.hpp"

namespace flotilla {

/// Carries out the commands that a worker sends to this server (save_messages.hpp). What fails is part of the
/// reply and is not thrown.
class CommandHandler {
 public:
  CommandHandler(RowStore& rows, mpi::PushPullServer& requests) : rows_(rows), requests_(requests) {}
  void carry_out(const mpi::WorkerRequest& request);

 private:
  RowStore& rows_;
  mpi::PushPullServer& requests_;
  std::optional<RowSave> save_;  ///< Has no name yet
};

}  // namespace flotilla
