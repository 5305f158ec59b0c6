// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "tests/checkpoint/save_sequences.hpp"

// Every failure of a save in every state that sequences of fewer failures lead to, and random sequences of
// five: sweep_saves [LENGTH [SAMPLES [SEED]]].

int main(int argc, char** argv) {
  using namespace flotilla;
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const auto longest = static_cast<std::size_t>(argument(1, 5));
  const int samples = argument(2, 2000);
  std::mt19937 random(static_cast<unsigned>(argument(3, 1)));
  std::size_t broken = 0;
  for (const bool worker_parts : {false, true}) {
    for (const bool server_parts : {false, true}) {
      for (const std::int64_t keep : {1, 2}) {
        const SaveSetting setting{.worker_parts = worker_parts, .server_parts = server_parts, .keep = keep};
        const auto events = all_events(setting);
        Exploration found = explore(setting, longest);
        for (int i = 0; i < samples; ++i)
          if (const std::string promise = broken_promise(setting, random_sequence(events, 5, random));
              !promise.empty())
            found.broken.push_back(promise);
        for (std::size_t i = 0; i < found.broken.size() && i < 20; ++i) fmt::print("{}\n", found.broken[i]);
        fmt::print(
            "parts of workers: {}, of servers: {}, {} kept: {} events in {} states, {} sequences up to {}{}, "
            "{} random ones, {} broken\n",
            worker_parts, server_parts, keep, events.size(), found.states, found.tried, found.length,
            found.all ? " (no new states: all lengths)" : "", samples, found.broken.size());
        std::fflush(stdout);
        broken += found.broken.size();
      }
    }
  }
  return broken == 0 ? 0 : 1;
}
