// SPDX-License-Identifier: Apache-2.0
#include "tests/runs/program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/support/launched_rank.hpp"

namespace flotilla::test {

namespace fs = std::filesystem;

namespace {

/// Tells the processes of one Program from those of others; its value is the process id of the launcher.
constexpr const char* group_variable = "FLOTILLA_TEST_GROUP";
/// What MPICH's launcher prints where a rank ended by a signal, or without MPI_Finalize.
constexpr const char* mark_of_mpich = "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES";

void redirect(const std::string& file, int descriptor) {
  const int opened = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (opened < 0 || dup2(opened, descriptor) < 0) _exit(126);
}

/// The value of NAME=value in a process' environment; empty if it has none.
std::string environment_of(const fs::path& process, const std::string& name) {
  std::istringstream variables(read_file((process / "environ").string()));
  std::string variable;
  while (std::getline(variables, variable, '\0'))
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  return "";
}

}  // namespace

Program::Program(const std::vector<std::string>& command) {
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    setpgid(0, 0);
    setenv(group_variable, std::to_string(getpid()).c_str(), 1);
    redirect(folder_.path("out"), STDOUT_FILENO);
    redirect(folder_.path("err"), STDERR_FILENO);
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(127);
  }
}

Program::~Program() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

pid_t Program::pid() const {
  if (pid_ <= 0) throw std::logic_error("the program has ended");
  return pid_;
}

Result Program::wait() {
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("waitpid failed");
  return ended(status);
}

std::optional<Result> Program::wait_for(double seconds) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  pid_t found = waitpid(pid_, &status, WNOHANG);
  while (found == 0 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    found = waitpid(pid_, &status, WNOHANG);
  }
  if (found < 0) throw std::runtime_error("waitpid failed");
  return found == 0 ? std::nullopt : std::optional(ended(status));
}

Result Program::ended(int status) {
  pid_ = -1;
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .output = output(),
          .errors = errors()};
}

std::string Program::output() const {
  return read_file(folder_.path("out"));
}

std::string Program::errors() const {
  return read_file(folder_.path("err"));
}

std::vector<std::string> flotilla_command(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {FLOTILLA_MPIEXEC, "-n", std::to_string(ranks), FLOTILLA_EXECUTABLE};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (ranks > 1 && arguments.size() > 1 && arguments.front() == "train")
    command.insert(command.begin() + 6, "run.check_collectives=true");  // after the deck
  return command;
}

std::vector<std::string> in_environment(const std::vector<std::string>& variables,
                                        std::vector<std::string> command) {
  command.insert(command.begin(), variables.begin(), variables.end());
  command.insert(command.begin(), "env");
  return command;
}

std::vector<std::string> with_variables(std::vector<std::string> command,
                                        const std::vector<std::string>& variables) {
  const auto program = std::ranges::find(command, std::string(FLOTILLA_EXECUTABLE));
  const auto env = command.insert(program, "env");
  command.insert(env + 1, variables.begin(), variables.end());
  return command;
}

Result flotilla(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = flotilla_command(ranks, arguments);
  // After a failure mpirun waits for two seconds for ranks that may still run; a single one has ended.
  if (ranks == 1) command = in_environment({"OMPI_MCA_odls_base_sigkill_timeout=0"}, std::move(command));
  return Program(command).wait();
}

Result run(const std::vector<std::string>& command) {
  return Program(command).wait();
}

std::string source_path(const std::string& relative) {
  return std::string(FLOTILLA_SOURCE_DIR) + "/" + relative;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::vector<nlohmann::json> metrics(const std::string& run_folder, const std::string& event) {
  const std::string text = read_file(run_folder + "/metrics.jsonl");
  std::istringstream whole_lines(text.substr(0, text.rfind('\n') + 1));
  std::vector<nlohmann::json> found;
  std::string line;
  while (std::getline(whole_lines, line)) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (json.at("event") == event) found.push_back(std::move(json));
  }
  return found;
}

namespace {

std::vector<nlohmann::json> some_metrics(const std::string& run_folder, const std::string& event) {
  std::vector<nlohmann::json> found = metrics(run_folder, event);
  if (found.empty())
    throw std::runtime_error("no event \"" + event + "\" in " + run_folder + "/metrics.jsonl");
  return found;
}

}  // namespace

nlohmann::json first_metrics(const std::string& run_folder, const std::string& event) {
  return some_metrics(run_folder, event).front();
}

nlohmann::json last_metrics(const std::string& run_folder, const std::string& event) {
  return some_metrics(run_folder, event).back();
}

std::vector<double> losses(const std::string& run_folder) {
  std::vector<double> found;
  for (const nlohmann::json& step : metrics(run_folder, "step")) found.push_back(step.at("loss"));
  return found;
}

void expect_told(const Result& result, const std::string& text) {
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_EQ(count(result.errors, "flotilla: ") - count(result.errors, "flotilla:   "), 1) << result.errors;
  EXPECT_NE(result.errors.find(text), std::string::npos) << result.errors;
}

void expect_killed(const Result& result) {
  const bool by_mpich = contains(result.output, mark_of_mpich);
  EXPECT_EQ(result.exit_code, by_mpich ? SIGKILL : 128 + SIGKILL) << result.errors;
}

bool launcher_killed_at_once(const Result& result) {
  // If one of two ranks ends with an exit code, MPICH's launcher prints nothing either.
  const bool silent_mpich =
      contains(result.output, "(MPICH ") && count(result.errors, "flotilla: rank ") == 0;
  return contains(result.errors, "prterun ") || contains(result.output, mark_of_mpich) || silent_mpich;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

bool runs(pid_t process) {
  const std::string state = read_file("/proc/" + std::to_string(process) + "/stat");
  const std::size_t name_end = state.rfind(") ");  // "pid (name) S …"
  return name_end != std::string::npos && state[name_end + 2] != 'Z' && state[name_end + 2] != 'X';
}

std::map<int, pid_t> present_ranks(pid_t parent) {
  const std::string group = std::to_string(parent);
  std::map<int, pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code ignored;
    if (fs::read_symlink(entry.path() / "exe", ignored) != fs::path(FLOTILLA_EXECUTABLE)) continue;
    if (environment_of(entry.path(), group_variable) != group) continue;
    for (const char* const variable : rank_variables)
      if (const std::string rank = environment_of(entry.path(), variable); !rank.empty())
        found[std::stoi(rank)] = static_cast<pid_t>(std::stol(name));
  }
  return found;
}

std::vector<pid_t> rank_processes(pid_t parent, int ranks) {
  for (int attempt = 0; attempt < 3000; ++attempt) {
    const std::map<int, pid_t> found = present_ranks(parent);
    if (static_cast<int>(found.size()) == ranks) {
      std::vector<pid_t> processes;
      for (const auto& [rank, process] : found) processes.push_back(process);
      return processes;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error("the ranks of " + std::to_string(parent) + " did not appear");
}

}  // namespace flotilla::test
