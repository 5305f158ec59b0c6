// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace flotilla {

/// One of several processes that a launcher started together.
struct LaunchedProcess {
  std::string launcher{};   ///< "srun", "Open MPI's launcher" or "a launcher for MPICH"
  std::int64_t count = 0;   ///< Processes that it started
  std::int64_t number = 0;  ///< Number of this process, from 0
};

/// If this process was started by hand in a shell that is one of several tasks (srun --pty), removes the
/// variables by which MPI would wait for the other tasks. To be called before MPI is initialised.
void leave_task_of_shell();

/// The launcher of this process, by the variables that launchers set; empty if there is none, or it started
/// one process only. To be called before MPI is initialised, which may set them too.
std::optional<LaunchedProcess> launched_process();

/// Replaces this process by mpirun, which starts the program with the same arguments on `ranks` ranks of this
/// host, more than its cores too; settings of the environment are kept. Does not return.
/// @throws UserError if a launcher started this process, or there is no mpirun
[[noreturn]] void start_ranks(int ranks, char** argv);

/// Why the processes of a launcher do not know of each other, and the remedy: for those that each find
/// themselves alone in MPI_COMM_WORLD. `mpi` is the MPI of this program, as "Open MPI 4.1.4".
std::string singleton_mpi_error(const LaunchedProcess& process, const std::string& mpi);

}  // namespace flotilla
