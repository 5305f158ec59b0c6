// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "tests/faults/faulted_run.hpp"

namespace flotilla::test {

namespace {

/// A job ends within this time beyond run.watchdog_s, as docs/troubleshooting.md promises.
constexpr double bound_beyond_watchdog_s = 5.0;
/// Maximum time of a run from its start to its end.
constexpr double bound_of_whole_run_s = 40.0;

bool is_crash(int exit_code) {
  const std::vector<int> signals = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
  return exit_code == 4 || std::ranges::find(signals, exit_code - 128) != signals.end();
}

/// @returns what a run with a failing call did wrong; empty: nothing
std::string check_failed_call(const Fault& fault, const Result& result) {
  const std::string told = line_about(fault.call, result.errors);
  if (contains(result.errors, "is damaged and was passed over") && fault.call.error != "short")
    return "it takes what it cannot read for damaged";
  if (contains(result.errors, "nothing has moved")) return "it ended by the watchdog";
  if (result.exit_code == 0) return "";
  if (result.exit_code != 2 && result.exit_code != 3) return "expected exit code 0, 2 or 3";
  if (fault.call.error == "short") return "it does not survive a short transfer";
  if (told.empty()) return "it does not say why";
  // What a server could not save is reported by the worker that asked it.
  const bool named = contains(told, "rank " + std::to_string(fault.call.rank) + " on ") ||
                     contains(told, "was not saved: server ");
  const bool trains = contains(result.output, "\nepoch ");
  return trains && !(named && contains(told, ", step ")) ? "it does not name rank and step" : "";
}

}  // namespace

std::string check_end(const Fault& fault, bool fired, const Result& result, double gone_s, int watchdog_s) {
  const int code = result.exit_code;
  const Harm harm = fault.harm;
  const bool whole_run = harm == Harm::fail_call || harm == Harm::fill_shared_memory;
  if (is_crash(code)) return "it crashed, or takes it for an error of its own";
  if (gone_s > (whole_run ? bound_of_whole_run_s : watchdog_s + bound_beyond_watchdog_s))
    return "gone too late";
  if (fault.also) return code == 0 ? "exit code 0 after two faults" : "";
  if (harm == Harm::fail_call) return fired || code != 0 ? check_failed_call(fault, result) : std::string();
  if (harm == Harm::fill_shared_memory)
    return code == 0 || (code == 2 && contains(result.errors, "/dev/shm"))
               ? ""
               : "expected exit code 0, or 2 and why";
  if (fault.moment == Moment::at_the_end) return "";
  if (fault.ends_in_order() || !fired) {
    // A rank that does not listen yet ends by the signal.
    if (fault.moment == Moment::at_start && (code == 128 + SIGUSR1 || code == 128 + SIGTERM)) return "";
    return code == 75 ? "" : "expected exit code 75";
  }
  if (harm == Harm::stop_rank) {
    if (code != 3) return "expected exit code 3";
    const std::string name = "rank " + std::to_string(fault.rank) + " on ";
    return contains(result.errors, name) && contains(result.errors, "does not answer")
               ? ""
               : "it does not name the rank";
  }
  if (harm == Harm::keep_disk_full) return code == 2 ? "" : "expected exit code 2";
  return code == 0 || code == 2 || code == 3 ? "an exit code of its own" : "";
}

}  // namespace flotilla::test
