// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "mpi/push_pull/push_pull_server.hpp"
#include "src/parameter_server/server/row_parts.hpp"
#include "src/parameter_server/server/row_store.hpp"

namespace flotilla {

/// Executes the commands of a worker to this server (save_messages.hpp). Errors are part of the reply and are
/// not thrown.
class CommandHandler {
 public:
  CommandHandler(RowStore& rows, mpi::PushPullServer& requests) : rows_(rows), requests_(requests) {}
  void carry_out(const mpi::WorkerRequest& request);

 private:
  RowStore& rows_;
  mpi::PushPullServer& requests_;
  std::optional<RowSave> save_;  ///< Complete but not renamed yet
};

}  // namespace flotilla
