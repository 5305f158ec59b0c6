// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/resident_folder.hpp"
#include "src/commands/subcommand.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/files/run_lock.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

/// The processes of a killed run may exist a little longer than its launcher, and other hosts rescue too.
constexpr double patience_with_rescue_s = 60.0;

struct RescueArguments {
  std::string run;
  bool dry_run = false;
};

/// Saves a state in this host's memory unless the run has it already. @returns what was done, or would be
std::string rescue_state(const RescueArguments& given, const ResidentRecord& record,
                         const ResidentState& state) {
  const std::string what = cat("the state of step ", state.step, " in the memory of ", own_host_name());
  if (const auto same = state_of_step(given.run, state.step)) {
    if (same->checksum == state.checksum) return cat(what, " is in ", same->file, " already");
    throw UserError(cat(what, " and ", same->file,
                        " differ, so the memory of one host is not to be trusted: move that "
                        "file away to go on from an older checkpoint"));
  }
  if (const std::string reason = why_not_resident(given.run, record, state.step); !reason.empty())
    return cat(what, " is of no use: ", reason);
  if (given.dry_run) return cat(what, " would be saved as a checkpoint of ", given.run);
  if (!state.missing.empty())
    return cat("the parts of this host's workers were saved, not yet a checkpoint: ", state.missing,
               "; rescue the run on the other hosts too");
  return cat(what, " was saved as ", save_resident_state(state, given.run));
}

int rescue(const RescueArguments& given) {
  if (!is_there(given.run))
    throw UserError(cat("'", given.run, "' is not there: name the folder of a run (run.output)"));
  const RunLock lock(given.run, given.dry_run ? 0.0 : patience_with_rescue_s);
  if (!lock.warning().empty()) print_error_line(cat("flotilla: warning: ", lock.warning()));
  std::optional<ResidentRecord> record = ResidentRecord::read(given.run);
  if (!record) {
    print_line(cat("no host keeps a state of ", given.run, " in memory: it ended in order, or keeps none"));
    return 0;
  }
  const ResidentFolder folder(record->id);
  std::vector<std::string> damage;
  const std::unique_ptr<RunLock> taken = folder.take(damage);
  if (taken && !given.dry_run) folder.save_parts(given.run);
  std::vector<ResidentState> states;
  if (taken) states = folder.states(given.run, damage);
  for (const std::string& line : damage) print_error_line(cat("flotilla: warning: ", line));
  print_line(!states.empty() ? rescue_state(given, *record, states.front())
                             : cat("the memory of ", own_host_name(), " holds no state of ", given.run));
  if (given.dry_run) return 0;
  if (taken) folder.remove();
  std::erase(record->hosts, own_host_name());
  record->write(given.run);
  return 0;
}

}  // namespace

Subcommand rescue_command() {
  return SubcommandOf<RescueArguments>{
      .name = "rescue",
      .help = "Save what this host's memory holds of a run whose processes were killed",
      .add_options =
          [](CLI::App& command, RescueArguments& arguments, Positionals& positionals) {
            positionals.add_file(command, "RUN", "Folder of the run");
            command.add_flag("--dry-run", arguments.dry_run, "Print what would be done, and change nothing");
          },
      .take_positionals = [](RescueArguments& arguments,
                             Positionals& positionals) { arguments.run = positionals.take_file("RUN"); },
      .run_alone = rescue,
      .once_a_host = true,
  };
}

}  // namespace flotilla
