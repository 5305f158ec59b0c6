// SPDX-License-Identifier: Apache-2.0
#include "src/commands/version.hpp"

#include "kernels/build_info.hpp"
#include "kernels/error.hpp"
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
  const BuildInfo build = build_info();
  return cat(version, " (", mpi::Environment::library_version(), ", oneDNN ", build.onednn, ", HDF5 ",
             hdf5_version(), ")");
}

std::string version_text() {
  const BuildInfo build = build_info();
  return cat("flotilla ", version,                                  //
             "\nMPI        ", mpi::Environment::library_version(),  //
             "\noneDNN     ", build.onednn,                         //
             "\nKokkos     ", build.kokkos,                         //
             "\nHDF5       ", hdf5_version(),                       //
             "\nCUDA       ", build.cuda,                           //
             "\nNCCL       ", mpi::nccl_version(),                  //
             "\nprocessor  ", build.architecture);
}

}  // namespace flotilla
