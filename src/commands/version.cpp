// SPDX-License-Identifier: Apache-2.0
#include "src/commands/version.hpp"

#include "kernels/cpu/device.hpp"
#include "kernels/error.hpp"
#include "kernels/gpu/device.hpp"
#include "kernels/gpu/loops/kokkos_scope.hpp"
#include "kernels/processor/processor.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/core/communicator.hpp"
#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

namespace {
constexpr const char* version = FLOTILLA_VERSION;
}  // namespace

std::string version_line() {
  return "flotilla " + version_numbers();
}

std::string version_numbers() {
  return cat(version, " (", mpi::Environment::library_version(), ", oneDNN ", onednn_version(), ", HDF5 ",
             hdf5_version(), ")");
}

std::string version_text() {
  return cat("flotilla ", version,                                  //
             "\nMPI        ", mpi::Environment::library_version(),  //
             "\noneDNN     ", onednn_version(),                     //
             "\nKokkos     ", kokkos_version(),                     //
             "\nHDF5       ", hdf5_version(),                       //
             "\nCUDA       ", cuda_version(),                       //
             "\nNCCL       ", mpi::nccl_version(),                  //
             "\nprocessor  ", built_for());
}

}  // namespace flotilla
