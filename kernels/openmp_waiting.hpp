// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla {

/// Makes the threads of GNU OpenMP sleep after waiting for 50 us; by itself the library lets them spin for
/// 300,000 pauses (6 ms and more), in which they block the thread that they wait for wherever cores are
/// shared. The library reads its setting when it is loaded, before main. So the program replaces itself
/// (execv: process id, arguments and open files stay), once, with GOMP_SPINCOUNT in its environment. Does
/// nothing where OMP_WAIT_POLICY or GOMP_SPINCOUNT is set: the user has chosen. Call it before MPI is
/// initialised and before any thread is started.
/// @return why that was not possible, for a warning; empty: nothing was to be done
std::string restart_with_short_spins(char** argv);

/// The system's ids of the threads that the calling thread computes with: its own first, then OpenMP's.
/// @param threads of an operation
std::vector<std::int64_t> computing_threads(int threads);

}  // namespace flotilla
