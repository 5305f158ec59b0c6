// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/idle.hpp"

#include <mpi.h>

#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

/// The life of MPI's interface to its own variables.
class Variables {
 public:
  Variables() {
    int granted = 0;
    check(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &granted), "MPI_T_init_thread");
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() { MPI_T_finalize(); }
};

std::optional<bool> read_yields() {
  const Variables variables;
  int index = 0;
  if (MPI_T_cvar_get_index("mpi_yield_when_idle", &index) != MPI_SUCCESS) return std::nullopt;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int count = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return std::nullopt;
  long long value = 0;  // it may be narrower: then some byte is not 0
  const bool read = count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS &&
                    MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS;
  if (!read) return std::nullopt;
  return value != 0;
}

}  // namespace

std::optional<bool> yields_when_idle() {
  // Open MPI loads all its parts for this, 0.2 s where it has those for PSM.
  static const std::optional<bool> yields = read_yields();
  return yields;
}

}  // namespace flotilla::mpi
