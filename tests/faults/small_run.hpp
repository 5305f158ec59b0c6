// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/runs/program.hpp"

namespace flotilla::test {

/// A training of the shipped digits that saves every 20 steps; `more` is appended to its arguments.
inline std::vector<std::string> small_run(const std::string& output, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"train",
                                  source_path("inputs/mnist_mlp.toml"),
                                  "run.output=" + output,
                                  "device.threads=1",
                                  "train.global_batch_size=32",
                                  "run.log_every=20",
                                  "checkpoint.every=20"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// A command of flotilla_command() with a library that is loaded into the ranks.
inline std::vector<std::string> with_library(const std::vector<std::string>& command,
                                             const std::string& library,
                                             const std::vector<std::string>& environment) {
  std::vector<std::string> variables = environment;
  variables.push_back("LD_PRELOAD=" + library);
  return with_variables(command, variables);
}

/// @returns false if it did not come to hold in so many seconds
template <class Condition>
bool wait_until(Condition holds, double seconds = 120.0) {
  using Clock = std::chrono::steady_clock;
  const auto give_up = Clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (Clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return true;
}

}  // namespace flotilla::test
