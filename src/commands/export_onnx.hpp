// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "src/commands/export.hpp"

namespace flotilla {

/// Writes the model of a checkpoint to the ONNX file `arguments.output`, atomically, replacing what was there
/// (docs/export.md). Damaged checkpoints of a folder that are skipped are reported to `on_damaged`.
/// @returns the path of the checkpoint that was used. @throws UserError, also in a build without ONNX
std::string export_onnx(const ExportArguments& arguments,
                        const std::function<void(const std::string&)>& on_damaged);

}  // namespace flotilla
