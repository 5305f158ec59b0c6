// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace flotilla::test {

/// What a finished program left.
struct Result {
  int exit_code = -1;
  std::string output;  ///< stdout
  std::string errors;  ///< stderr
};

/// A program that runs in parallel with the test; killed with its process group if it still runs at the end.
class Program {
 public:
  explicit Program(const std::vector<std::string>& command);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();
  /// The launcher's process id. @throws std::logic_error once it has ended: kill() of −1 would reach every
  /// process
  pid_t pid() const;
  Result wait();
  std::optional<Result> wait_for(double seconds);  ///< Nothing if it still runs then.
  std::string output() const;                      ///< What it has said so far
  std::string errors() const;                      ///< What was written to stderr so far

 private:
  Result ended(int status);

  pid_t pid_ = -1;
  TemporaryFolder folder_;
};

/// mpirun -n ranks flotilla arguments…
std::vector<std::string> flotilla_command(int ranks, const std::vector<std::string>& arguments);
/// A command with variables for all of it, the launcher included, each NAME=VALUE.
std::vector<std::string> in_environment(const std::vector<std::string>& variables,
                                        std::vector<std::string> command);
/// The command of flotilla_command() with variables for the ranks, each NAME=VALUE, whatever the launcher.
std::vector<std::string> with_variables(std::vector<std::string> command,
                                        const std::vector<std::string>& variables);
Result flotilla(int ranks, const std::vector<std::string>& arguments);
Result run(const std::vector<std::string>& command);

std::string source_path(const std::string& relative);  ///< The path of a file of the source tree.
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);
/// The last line of a run that still trains may be read half-written, where it crosses a page of the file: it
/// is left out then.
std::vector<nlohmann::json> metrics(const std::string& run_folder, const std::string& event);
/// @throws std::runtime_error if the run has none, because it failed
nlohmann::json first_metrics(const std::string& run_folder, const std::string& event);
nlohmann::json last_metrics(const std::string& run_folder, const std::string& event);  ///< As first_metrics()
/// The loss of each step in metrics.jsonl.
std::vector<double> losses(const std::string& run_folder);
/// Expects exit code 2 and one message on stderr (its list of mistakes, if it has one, below it) with `text`
/// in it.
void expect_told(const Result& result, const std::string& text);
/// Expects what launchers say of a job of which a rank was killed: 128 + SIGKILL, MPICH's SIGKILL alone.
void expect_killed(const Result& result);
/// Whether the launcher killed the others as soon as one rank was gone, as those of Open MPI 5 and MPICH do:
/// none had time to say anything.
bool launcher_killed_at_once(const Result& result);
bool contains(const std::string& text, const std::string& part);
/// The number of occurrences of `part` in `text`.
int count(const std::string& text, const std::string& part);
/// Whether a process is there and not a zombie.
bool runs(pid_t process);
/// The processes named flotilla below `parent` that are there now, by rank.
std::map<int, pid_t> present_ranks(pid_t parent);
/// The processes named flotilla below `parent`, in the order of their ranks.
std::vector<pid_t> rank_processes(pid_t parent, int ranks);

}  // namespace flotilla::test
