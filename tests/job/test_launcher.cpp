// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "src/job/launcher.hpp"

namespace flotilla {
namespace {

/// What launched_process() finds where launchers have set these variables and no others.
std::optional<LaunchedProcess> launched_with(
    const std::vector<std::pair<const char*, const char*>>& variables) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                           "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_TASK_PID"})
    unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  leave_task_of_shell();
  return launched_process();
}

TEST(LaunchedProcess, IsNoneWithoutVariablesOrWithHalfOfThem) {
  EXPECT_FALSE(launched_with({}));
  EXPECT_FALSE(launched_with({{"PMI_SIZE", "4"}}));
  EXPECT_FALSE(launched_with({{"PMI_SIZE", "four"}, {"PMI_RANK", "0"}}));
  EXPECT_FALSE(launched_with({{"PMI_SIZE", "4"}, {"PMI_RANK", "-1"}}));
  EXPECT_FALSE(launched_with({{"SLURM_STEP_NUM_TASKS", ""}, {"SLURM_PROCID", "0"}}));
}

TEST(LaunchedProcess, HasTheNumbersOfItsLauncher) {
  const auto process = launched_with({{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}});
  ASSERT_TRUE(process);
  EXPECT_EQ(process->launcher, "a launcher for MPICH");
  EXPECT_EQ(process->count, 4);
  EXPECT_EQ(process->number, 3);
  EXPECT_EQ(launched_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}})->launcher,
            "Open MPI's launcher");
  EXPECT_EQ(launched_with({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}})->launcher, "srun");
}

TEST(LaunchedProcess, OfSrunStaysSrunsWhereItSpeaksToMpich) {
  EXPECT_EQ(launched_with(
                {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}, {"PMI_SIZE", "4"}, {"PMI_RANK", "3"}})
                ->launcher,
            "srun");
}

TEST(LaunchedProcess, IsNoneWhereMpirunStartedOneByHelpersThatSrunCounts) {
  EXPECT_FALSE(launched_with({{"SLURM_STEP_NUM_TASKS", "2"},
                              {"SLURM_PROCID", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "1"},
                              {"OMPI_COMM_WORLD_RANK", "0"}}));
}

/// A process that stands for the task that srun started. @param terminal as `srun --pty` gives it one
class Task {
 public:
  explicit Task(bool terminal) {
    process_ = terminal ? forkpty(&terminal_, nullptr, nullptr, nullptr) : fork();
    if (process_ != 0) return;
    if (!terminal) setsid();
    while (true) pause();
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    if (terminal_ >= 0) close(terminal_);
  }
  std::string process() const { return std::to_string(process_); }
  bool counts() const {
    return launched_with(
               {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_TASK_PID", process().c_str()}})
        .has_value();
  }

 private:
  int terminal_ = -1;
  pid_t process_ = -1;
};

TEST(LaunchedProcess, IsNoneBelowAShellInATerminalOfSrun) {
  const Task shell(true);
  // Waits through the time between fork and the terminal's session.
  for (int i = 0; i < 1000 && shell.counts(); ++i) usleep(1000);
  EXPECT_FALSE(shell.counts());
  EXPECT_TRUE(launched_with({{"SLURM_STEP_NUM_TASKS", "4"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_TASK_PID", shell.process().c_str()},
                             {"PMI_SIZE", "2"},
                             {"PMI_RANK", "1"}}))
      << "mpiexec in that shell";
  EXPECT_TRUE(Task(false).counts()) << "a script that srun started without a terminal";
  EXPECT_TRUE(launched_with({{"SLURM_STEP_NUM_TASKS", "4"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_TASK_PID", std::to_string(getpid()).c_str()}}));
}

TEST(NotTogether, NamesBothAndTheRemedy) {
  EXPECT_EQ(singleton_mpi_error({.launcher = "a launcher for MPICH", .count = 4}, "Open MPI 4.1.4"),
            "a launcher for MPICH started 4 processes, but Open MPI 4.1.4 did not bring them together: each "
            "would train alone. Use the mpirun of the MPI that this program was built with");
  EXPECT_NE(singleton_mpi_error({.launcher = "srun", .count = 2}, "MPICH 4.0.2").find("srun --mpi=pmix"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla
