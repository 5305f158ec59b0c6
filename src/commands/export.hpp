// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace flotilla {

/// `flotilla export`: writes the model of a checkpoint without optimizer state to `out`, atomically and
/// verified, replacing what was there. A folder means its newest good checkpoint; damaged ones that are
/// skipped are reported to `on_damaged`.
/// @param average take the averaged weights (train.average_decay) instead of those that were trained
/// @returns the path of the checkpoint that was used. @throws
/// UserError.
std::string export_model(const std::string& checkpoint_or_folder, const std::string& out,
                         const std::function<void(const std::string&)>& on_damaged, bool average = false);

}  // namespace flotilla
