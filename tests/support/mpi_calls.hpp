// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace flotilla::test {

/// Calls of MPI by this rank. A program that links mpi_calls gets the functions that count, by the second
/// names that MPI's functions have, PMPI_….
struct MpiCalls {
  int collectives = 0;          ///< MPI_Bcast, MPI_Allreduce, MPI_Allgather, MPI_Allgatherv, MPI_Iallgather
  int sends = 0;                ///< MPI_Send, MPI_Isend
  int receives = 0;             ///< MPI_Recv
  int tested = 0;               ///< Most requests of one MPI_Testsome
  std::int64_t sent_bytes = 0;  ///< By MPI_Isend of bytes
  std::int64_t gathered = 0;    ///< Values of this rank in MPI_Allgather and MPI_Allgatherv
  std::int64_t reduced = 0;     ///< Values of this rank in MPI_Allreduce
  std::map<int, int> by_tag{};  ///< Calls of MPI_Isend of bytes
  std::set<int> partners{};     ///< Ranks to which MPI_Isend sends or from which MPI_Irecv receives
  friend bool operator==(const MpiCalls&, const MpiCalls&) = default;
};

/// The calls since the last reset, which an assignment is. For one thread.
MpiCalls& mpi_calls();

}  // namespace flotilla::test
