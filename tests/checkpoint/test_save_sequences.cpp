// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/checkpoint/save_sequences.hpp"

// The fast part of `sweep_saves`, which goes through the states that sequences of any length lead to.

namespace flotilla {

namespace {

std::vector<SaveSetting> all_settings(std::int64_t keep) {
  std::vector<SaveSetting> settings;
  for (const bool worker_parts : {false, true})
    for (const bool server_parts : {false, true})
      settings.push_back({.worker_parts = worker_parts, .server_parts = server_parts, .keep = keep});
  return settings;
}

}  // namespace

TEST(SaveSequences, OfOneFailureLoseNoCheckpointInAnyMode) {
  for (const SaveSetting& setting : all_settings(1))
    EXPECT_EQ(explore(setting, 1).broken, std::vector<std::string>());
}

TEST(SaveSequences, OfSeveralFailuresDrawnAtRandomLoseNoCheckpointInAnyMode) {
  std::mt19937 random(17);
  for (const std::int64_t keep : {1, 2})
    for (const SaveSetting& setting : all_settings(keep))
      for (const std::size_t length : {2, 3, 5})
        for (int i = 0; i < 8; ++i)
          EXPECT_EQ(broken_promise(setting, random_sequence(all_events(setting), length, random)), "");
}

}  // namespace flotilla
