// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/parameter_server/server/row_store.hpp"

namespace flotilla {

/// Writes all rows with their optimizer's state as a server's part of a checkpoint, piece by piece, and
/// verifies it. The part is renamed once those of all servers are complete: it may replace one that an
/// earlier checkpoint of the same step still needs.
class RowSave {
 public:
  /// @throws UserError
  RowSave(RowStore& rows, const std::string& path, const CheckpointState& state);
  const CheckpointPart& part() const { return part_; }
  void give_name() { file_.give_name(); }  ///< @throws UserError

 private:
  RowFileWriter file_;
  CheckpointPart part_;
};

/// Loads the rows of a file that belong to this server: from a server's part of a checkpoint, of any number
/// of servers, or from an exported model, whose rows have no state. Rows of a damaged file may be loaded
/// before the damage is found.
/// @throws UserError naming a file that is damaged or of another model
void load_rows(RowStore& rows, RowFileReader& file, int server, int servers);

}  // namespace flotilla
