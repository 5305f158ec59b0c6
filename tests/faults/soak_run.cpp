// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/soak_run.hpp"

#include <unistd.h>

#include <filesystem>
#include <span>
#include <stdexcept>
#include <string_view>

#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/files/checksum.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

namespace flotilla::test {

namespace fs = std::filesystem;

namespace {

/// Steps of the first reference run; a longer one is made where that is too short.
constexpr std::int64_t usual_reach = 480;

std::uint64_t checksum_of_values(const Snapshot& snapshot) {
  return checksum_of(std::as_bytes(std::span(snapshot.values)));
}

/// The environment of the ranks for a fault: the library to load and its settings.
Texts environment_of(const Fault& fault, const std::string& fired) {
  switch (fault.harm) {
    case Harm::die_at_call: return {"LD_PRELOAD=" DIE_AT_CALL, "FLOTILLA_TEST_DIE_AT=" + fault.call.plan()};
    case Harm::turn_clock: return {"LD_PRELOAD=" WRONG_CLOCK};
    case Harm::fail_call:
      return {"LD_PRELOAD=" FAIL_AT_CALL, "FLOTILLA_TEST_FAIL=" + fault.call.plan(),
              "FLOTILLA_TEST_FIRED=" + fired};
    default: return {};
  }
}

}  // namespace

Texts soak_command(const SoakCase& one, const SoakPlace& place, const std::string& output, const Texts& more,
                   const Fault* fault) {
  Texts arguments = one.arguments();
  arguments.push_back("run.output=" + output);
  arguments.push_back("run.watchdog_s=" + std::to_string(fault != nullptr ? one.watchdog_s() : 60));
  if (fault != nullptr && fault->moment == Moment::in_staging)
    arguments.push_back("data.stage_to=" + place.fired + "-staged");
  arguments.insert(arguments.end(), more.begin(), more.end());
  Texts variables = {"ASAN_OPTIONS=verify_asan_link_order=0"};
  if (fault != nullptr)
    for (const std::string& variable : environment_of(*fault, place.fired)) variables.push_back(variable);
  const Texts words = with_variables(flotilla_command(one.ranks, arguments), variables);
  Texts first = {"env", "TMPDIR=" + place.temporary};
  if (place.hosts == nullptr)
    first.push_back(words.front());
  else
    for (const std::string& word : place.hosts->launcher()) first.push_back(word);
  if (fault != nullptr && fault->harm == Harm::fill_shared_memory)
    first.insert(first.end(), {"--mca", "btl_vader_backing_directory", place.temporary});
  first.insert(first.end(), words.begin() + 1, words.end());
  return first;
}

std::int64_t comparable_step(std::int64_t step) {
  return (step + 39) / 40 * 40;
}

std::string References::made(const std::string& name, const SoakCase& one, const SoakPlace& place,
                             const Texts& more) const {
  const std::string folder = folder_ + "/" + one.name() + ", " + name;
  if (fs::exists(folder)) return folder;
  const std::string own = folder + "." + std::to_string(getpid());
  const Result result = run(soak_command(one, place, own, more, nullptr));
  if (result.exit_code != 0) throw std::runtime_error("a run that was left alone failed:\n" + result.errors);
  std::error_code by_another_process;
  fs::rename(own, folder, by_another_process);
  if (by_another_process) fs::remove_all(own);
  return folder;
}

std::string References::beginning(const SoakCase& one, const SoakPlace& place) const {
  const bool own_data = one.faults.front().moment == Moment::in_validation;
  return made(own_data ? "40 steps, other validation" : "40 steps", one, place, {"train.steps=40"});
}

std::uint64_t References::model(const SoakCase& one, const SoakPlace& place, std::int64_t step) const {
  std::int64_t reach = usual_reach;
  while (reach < step) reach *= 3;
  const std::string run =
      made(std::to_string(reach) + " steps", one, place,
           {"train.steps=" + std::to_string(reach), "checkpoint.every=40", "checkpoint.keep=10000"});
  return checksum_of_values(read_checkpoint(run + "/checkpoints/" + CheckpointFolder::file_name(step)));
}

bool References::repeats(const SoakCase& one, const SoakPlace& place, std::int64_t step) const {
  const std::string again = folder_ + "/again." + std::to_string(getpid());
  run(soak_command(one, place, again, {"train.steps=" + std::to_string(step)}, nullptr));
  const bool equal = checksum_of_model(again) == model(one, place, step);
  fs::remove_all(again);
  return equal;
}

std::uint64_t checksum_of_model(const std::string& run_folder) {
  return checksum_of_values(final_model(run_folder));
}

}  // namespace flotilla::test
