// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "tests/checkpoint/save_sequences.hpp"

// All sequences of up to three failures of saves, and some of five: sweep_saves [LENGTH [SAMPLES [SEED]]].

int main(int argc, char** argv) {
  using namespace flotilla;
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const auto longest = static_cast<std::size_t>(argument(1, 3));
  const int samples = argument(2, 2000);
  std::mt19937 random(static_cast<unsigned>(argument(3, 1)));
  std::int64_t tried = 0;
  std::int64_t broken = 0;
  const auto check = [&](const SaveSetting& setting, std::span<const SaveEvent> events) {
    ++tried;
    if (const std::string promise = broken_promise(setting, events); !promise.empty() && ++broken <= 20)
      fmt::print("{}\n", promise);
  };
  for (const bool worker_parts : {false, true}) {
    for (const bool server_parts : {false, true}) {
      const SaveSetting setting{.worker_parts = worker_parts, .server_parts = server_parts};
      const auto events = all_events(setting);
      for (std::size_t length = 1; length <= longest; ++length)
        for_all_sequences(events, length, [&](std::span<const SaveEvent> all) { check(setting, all); });
      for (int i = 0; i < samples; ++i)
        check({.worker_parts = worker_parts, .server_parts = server_parts, .keep = 1 + i % 2},
              random_sequence(events, 5, random));
      fmt::print("parts of workers: {}, of servers: {}: {} sequences of {} events so far, {} broken\n",
                 worker_parts, server_parts, tried, events.size(), broken);
      std::fflush(stdout);
    }
  }
  return broken == 0 ? 0 : 1;
}
