// SPDX-License-Identifier: Apache-2.0
#include "src/job/launcher.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

struct LauncherVariables {
  const char* launcher;
  const char* count;
  const char* number;
};

constexpr const char* srun = "srun";
/// The innermost first: mpirun itself starts its helpers by srun, which then counts hosts.
constexpr std::array launchers = {
    LauncherVariables{"Open MPI's launcher", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    LauncherVariables{"a launcher for MPICH", "PMI_SIZE", "PMI_RANK"},
    LauncherVariables{srun, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};

/// A whole number that is not negative; −1 for anything else.
std::int64_t count_in(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return -1;
  const std::string_view digits(text);
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : -1;
}

/// Whether the task that srun started is a shell in a terminal (srun --pty), in which this process was
/// started by hand: it has the variables of the task, but is none itself.
bool is_shell_of_srun(std::int64_t task) {
  if (task <= 0 || task == getpid()) return false;
  std::ifstream file(cat("/proc/", task, "/stat"));
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // the name before it may hold blanks
  std::string state;
  int parent = 0;
  int group = 0;
  int session = 0;
  int terminal = 0;
  fields >> state >> parent >> group >> session >> terminal;
  return terminal != 0;
}

}  // namespace

void leave_task_of_shell() {
  const std::int64_t task = count_in("SLURM_TASK_PID");
  if (!is_shell_of_srun(task)) return;
  std::set<std::string, std::less<>> of_shell;
  std::ifstream file(cat("/proc/", task, "/environ"));
  for (std::string variable; std::getline(file, variable, '\0');) of_shell.insert(variable);
  std::vector<std::string> names = {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_ID"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (!text.starts_with("PMI_") && !text.starts_with("PMIX_") && !text.starts_with("OMPI_COMM_")) continue;
    if (!of_shell.contains(text)) return;  // a launcher that was started in the shell has set it
    names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

std::optional<LaunchedProcess> launched_process() {
  for (const LauncherVariables& names : launchers) {
    const LaunchedProcess process{
        .launcher = names.launcher, .count = count_in(names.count), .number = count_in(names.number)};
    if (process.count < 0 || process.number < 0) continue;
    if (process.count < 2) return std::nullopt;
    // srun --mpi=pmi2 sets the variables of MPICH's launcher as well.
    const bool by_srun =
        count_in("SLURM_STEP_NUM_TASKS") == process.count && count_in("SLURM_PROCID") == process.number;
    return by_srun ? LaunchedProcess{srun, process.count, process.number} : process;
  }
  return std::nullopt;
}

void start_ranks(int ranks, char** argv) {
  for (const LauncherVariables& names : launchers)
    if (count_in(names.count) >= 0 && count_in(names.number) >= 0)
      throw UserError(cat("--ranks ", ranks, " starts ranks, but ", names.launcher,
                          " started this process: leave out one of the two"));
  // The settings of jobscripts/local.sh: more ranks than cores may be started, and one that waits yields its
  // core.
  const std::array<std::pair<const char*, const char*>, 5> settings = {
      {{"OMPI_MCA_rmaps_base_oversubscribe", "1"},
       {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
       {"OMPI_MCA_hwloc_base_binding_policy", "none"},
       {"PRTE_MCA_hwloc_default_binding_policy", "none"},
       {"OMPI_MCA_mpi_yield_when_idle", "1"}}};
  for (const auto& [name, value] : settings) setenv(name, value, 0);
  if (geteuid() == 0)
    for (const char* const name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      setenv(name, "1", 0);
  std::string launcher = "mpirun";
  std::string option = "-n";
  std::string count = std::to_string(ranks);
  std::vector<char*> words = {launcher.data(), option.data(), count.data()};
  for (char** word = argv; *word != nullptr; ++word) words.push_back(*word);
  words.push_back(nullptr);
  execvp("mpirun", words.data());
  throw UserError(cat("cannot start mpirun, which --ranks needs: ", std::strerror(errno),
                      "; put the mpirun of this program's MPI on PATH"));
}

std::string singleton_mpi_error(const LaunchedProcess& process, const std::string& mpi) {
  const std::string facts = cat(process.launcher, " started ", process.count, " processes, but ", mpi,
                                " did not bring them together: each would train alone. Use ");
  if (process.launcher == srun)
    return facts + "srun --mpi=pmix (srun --mpi=list shows what there is), or mpirun";
  return facts + "the mpirun of the MPI that this program was built with";
}

}  // namespace flotilla
