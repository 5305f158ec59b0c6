// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fault.hpp"

#include <sstream>

namespace flotilla::test {

namespace {

const char* name_of(Moment moment) {
  switch (moment) {
    case Moment::at_start: return "start";
    case Moment::in_staging: return "staging";
    case Moment::in_training: return "training";
    case Moment::in_validation: return "validation";
    case Moment::in_saving: return "saving";
    case Moment::at_the_end: return "end";
  }
  return "";
}

}  // namespace

std::string text_of(Harm harm) {
  switch (harm) {
    case Harm::kill_rank: return "kill rank";
    case Harm::kill_launcher: return "kill mpirun";
    case Harm::end_launcher: return "end mpirun";
    case Harm::die_at_call: return "die at call";
    case Harm::stop_rank: return "stop rank";
    case Harm::pause_rank: return "pause rank";
    case Harm::ask_to_stop: return "ask to stop";
    case Harm::end_ranks: return "end ranks";
    case Harm::fill_disk: return "fill disk";
    case Harm::keep_disk_full: return "keep disk full";
    case Harm::fill_shared_memory: return "fill /dev/shm";
    case Harm::fail_call: return "call fails";
    case Harm::turn_clock: return "turn clock";
  }
  return "";
}

std::string Fault::kind() const {
  if (also) return "two at once";
  if (harm == Harm::fail_call) return "call fails: " + (call.error.empty() ? call.word : call.error);
  const bool asks = harm == Harm::ask_to_stop || harm == Harm::end_ranks;
  return text_of(harm) + (asks ? std::string(", ") + name_of(moment) : "");
}

std::string Fault::text() const {
  std::ostringstream text;
  text << text_of(harm);
  if (harm == Harm::kill_rank || harm == Harm::stop_rank || harm == Harm::pause_rank) text << ' ' << rank;
  if (harm == Harm::die_at_call || harm == Harm::fail_call) return text.str() + ' ' + call.text();
  if (harm == Harm::fill_shared_memory) return text.str() + " of host " + std::to_string(host);
  if (also) text << " and " << text_of(*also) << ' ' << other_rank;
  text << ", " << name_of(moment);
  text.precision(3);
  text << " + " << std::fixed << delay_s << " s";
  return text.str();
}

bool Fault::ends_in_order() const {
  return !also && (harm == Harm::pause_rank || harm == Harm::ask_to_stop || harm == Harm::end_ranks ||
                   harm == Harm::fill_disk || harm == Harm::turn_clock);
}

}  // namespace flotilla::test
