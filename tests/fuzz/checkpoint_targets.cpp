// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/checkpoint/state_json.hpp"
#include "tests/fuzz/fuzz_targets.hpp"

// What a run saves and reads again.

namespace flotilla::fuzz {

namespace {

void checkpoint(Input input) {
  const InputFile file(input);
  try {
    CheckpointFile(file.path(), CheckpointFile::Content::everything).all();
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// Weights, as Flotilla and other programs write them.
void weights(Input input) {
  const InputFile file(input);
  try {
    read_weights(file.path());
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// A server's part of a checkpoint.
void rows(Input input) {
  const InputFile file(input);
  try {
    RowFileReader reader(file.path());
    for (std::size_t table = 0; table < reader.tables().size(); ++table)
      while (!reader.next(table).keys.empty()) continue;
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

void state(Input input) {
  try {
    const auto json = nlohmann::json::parse(text_of(input));
    class_names_of(json.get<CheckpointState>());
    note_read();
  } catch (const nlohmann::json::exception&) {  // NOLINT(bugprone-empty-catch): its callers tell the user
  } catch (const std::out_of_range&) {          // NOLINT(bugprone-empty-catch): of a word for a number
  }
}

}  // namespace

std::vector<Target> checkpoint_targets() {
  return {{"checkpoint", checkpoint}, {"weights", weights}, {"rows", rows}, {"state", state}};
}

}  // namespace flotilla::fuzz
