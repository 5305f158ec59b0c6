// SPDX-License-Identifier: Apache-2.0
#include "tests/mpi/launched_job.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

namespace flotilla::test {

namespace {

bool is_running(const std::string& mark) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string line;
    std::getline(file, line);  // fails where the process is gone by now
    if (line.find(mark) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Outcome launch(const std::string& program, int ranks, const std::string& arguments) {
  static std::atomic<int> launched{0};
  const std::string mark = "mark-" + std::to_string(getpid()) + "-" + std::to_string(++launched);
  const std::string command = std::string(MPIEXEC) + " -n " + std::to_string(ranks) + " " + program + " " +
                              arguments + " " + mark + " 2>&1";
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  // mpirun may return a moment before the last of the processes that it killed is gone.
  while (is_running(mark)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return outcome;
}

}  // namespace flotilla::test
