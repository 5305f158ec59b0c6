// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace flotilla {

// Saves in which calls of the system fail, one after the other, and what must hold after each of them. The
// writers, the folder and the servers' files are the program's own; the workers are two writers of one
// process.

/// What happens in the place of, or during, one save.
struct SaveEvent {
  enum class Way {
    nothing,   ///< A save that goes well
    fails,     ///< Each such call of the save fails with an input/output error
    lies,      ///< Each reports success without being made as asked
    kills,     ///< The process ends before the n-th; the run is started again
    set_back,  ///< No save: the run is started again from its oldest good checkpoint
  };
  Way way = Way::nothing;
  std::string call{};  ///< "open", "write", "sync", "read", "rename", "remove"
  std::string file{};  ///< Kind of file: "shared", "worker", "server" or "folder"
  int nth = 1;

  std::string text() const;  ///< "rename of worker kills (2)"
};

std::string text_of(std::span<const SaveEvent> events);

/// What a checkpoint consists of, and how many are kept.
struct SaveSetting {
  bool worker_parts = true;
  bool server_parts = true;
  std::int64_t keep = 1;
};

/// All events that can happen to the files of a setting.
std::vector<SaveEvent> all_events(const SaveSetting& setting);

/// Carries out the events in a new folder that holds one good checkpoint. @returns the first promise that is
/// broken, with the event; empty: none. After each event
/// - there is a good checkpoint, at least as new as the newest that was reported or that the run began from;
/// - one that was reported is good with all its parts, one that was denied is not there;
/// - nothing of a save that was denied, or of a killed run, is left but what could not be removed.
std::string broken_promise(const SaveSetting& setting, std::span<const SaveEvent> events);

/// What was found by going through sequences of events.
struct Exploration {
  std::size_t length = 0;           ///< Length of the longest sequences
  std::int64_t tried = 0;           ///< Sequences carried out
  std::size_t states = 0;           ///< Different ones that they led to
  bool all = false;                 ///< The longest sequences led to no new state: longer ones cannot either
  std::vector<std::string> broken;  ///< Promises, each with its sequence
};

/// Carries out every event in each state that any sequence of fewer than `length` events leads to. Two
/// sequences lead to one state if the files and what the writer remembers of them are alike, steps counted
/// from the current one; what follows is then tried once, so that this covers all sequences of up to `length`
/// events.
Exploration explore(const SaveSetting& setting, std::size_t length);

/// Some events, each as likely as the others.
std::vector<SaveEvent> random_sequence(std::span<const SaveEvent> events, std::size_t length,
                                       std::mt19937& random);

}  // namespace flotilla
