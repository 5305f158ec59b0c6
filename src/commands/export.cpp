// SPDX-License-Identifier: Apache-2.0
#include "src/commands/export.hpp"

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

std::string export_model(const std::string& checkpoint_or_folder, const std::string& out,
                         const std::function<void(const std::string&)>& on_damaged) {
  const std::string path = checkpoint_at(checkpoint_or_folder, on_damaged);
  check_output_file(out, path);
  Snapshot model = read_weights(path);
  if (model.state.deck.empty())
    throw UserError(cat(
        "'", path, "' has no deck, so it is not a checkpoint of a run; a file of weights needs no export"));
  model.state.inference_only = true;
  model.state.numbers.clear();  // these and the parts are for going on
  model.state.parts.clear();
  write_checkpoint_file(out, model);
  return path;
}

}  // namespace flotilla
