// SPDX-License-Identifier: Apache-2.0
#include "kernels/error.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"

namespace flotilla::mpi {

namespace {

[[noreturn]] void refuse() {
  throw UserError(
      "strategy.all_reduce: this build has no NCCL: configure it with -DFLOTILLA_CUDA=ON where NCCL is "
      "installed (NCCL_ROOT: where), or use \"auto\"");
}

}  // namespace

std::string nccl_version() {
  return "not built in";
}

bool has_nccl() {
  return false;
}

std::unique_ptr<Collectives> make_nccl_all_reduce(const Communicator&, NativeStream) {
  refuse();
}

std::unique_ptr<Collectives> make_nccl_hierarchical_all_reduce(const Communicator&, const Communicator&,
                                                               NativeStream) {
  refuse();
}

std::unique_ptr<Collectives> make_nccl_over_mpi_all_reduce(const Communicator&, const Communicator&,
                                                           NativeStream, Storage, Wire) {
  refuse();
}

std::unique_ptr<DeviceSums> make_nccl_sums(const Communicator&, NativeStream) {
  refuse();
}

}  // namespace flotilla::mpi
