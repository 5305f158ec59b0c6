// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

struct ExportArguments {
  std::string checkpoint;  ///< A file or a folder
  std::string output;      ///< An ONNX file if it ends in ".onnx", otherwise HDF5
  bool best = false;       ///< The best checkpoint of the folder
  bool average = false;    ///< The averaged weights (train.average_decay) instead of those that were trained
  bool keep_batch_norm = false;     ///< ONNX: as nodes of their own
  bool with_preprocessing = false;  ///< ONNX: bytes in, probabilities out
  bool with_scaling = false;        ///< ONNX: numbers as they are stored in
};

/// `flotilla export`, in the form that the output's name asks for. A folder means its newest good checkpoint;
/// damaged ones that are skipped are reported to `on_damaged`.
/// With ExportArguments::best the one of the best validation.
/// @returns the path of the checkpoint that was used. @throws UserError.
std::string export_checkpoint(const ExportArguments& arguments,
                              const std::function<void(const std::string&)>& on_damaged);

/// Writes the model of a checkpoint without optimizer state to the HDF5 file `out`, atomically and verified,
/// replacing what was there. A folder means its newest good checkpoint; damaged ones that are skipped are
/// reported to `on_damaged`.
/// @param average take the averaged weights (train.average_decay) instead of those that were trained
/// @returns the path of the checkpoint that was used. @throws UserError.
std::string export_model(const std::string& checkpoint_or_folder, const std::string& out,
                         const std::function<void(const std::string&)>& on_damaged, bool average = false);

}  // namespace flotilla
