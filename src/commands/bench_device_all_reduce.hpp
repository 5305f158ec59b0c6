// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "mpi/all_reduce/bench_all_reduce.hpp"
#include "src/commands/bench_all_reduce.hpp"

namespace flotilla {

/// Collective. Measures the all-reduces of training in the memory of arguments.device: NCCL's where each rank
/// has a GPU of its own, and those through host memory. One after another, with all sizes each. `say` gets
/// lines about the set-up.
void bench_device_all_reduce(const BenchAllReduceArguments& arguments, const mpi::Communicator& world,
                             const std::function<void(const std::string&)>& say,
                             const std::function<void(const mpi::AllReduceBenchRow&)>& on_row);

}  // namespace flotilla
