// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "src/server/row_store.hpp"

namespace flotilla {

/// Writes all rows with their optimizer's state as a server's part of a checkpoint, piece by piece.
/// @throws UserError
CheckpointPart save_rows(RowStore& rows, const std::string& path, const CheckpointState& state);

/// Puts the rows of these files that are this server's into its tables: server parts of a checkpoint, of any
/// number of servers, or an exported model, whose rows begin without state.
/// @throws UserError naming the file that is damaged or of another model
void load_rows(RowStore& rows, const std::vector<std::string>& files, int server, int servers);

}  // namespace flotilla
