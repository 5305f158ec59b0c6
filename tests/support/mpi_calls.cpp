// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mpi_calls.hpp"

#include <mpi.h>

#include <algorithm>

using flotilla::test::mpi_calls;

flotilla::test::MpiCalls& flotilla::test::mpi_calls() {
  static MpiCalls calls;
  return calls;
}

extern "C" {

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++mpi_calls().collectives;
  return PMPI_Bcast(data, count, type, root, comm);
}
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++mpi_calls().collectives;
  mpi_calls().reduced += count;
  return PMPI_Allreduce(from, to, count, type, op, comm);
}
int MPI_Allgather(const void* from, int sent, MPI_Datatype from_type, void* to, int got, MPI_Datatype to_type,
                  MPI_Comm comm) {
  ++mpi_calls().collectives;
  mpi_calls().gathered += sent;
  return PMPI_Allgather(from, sent, from_type, to, got, to_type, comm);
}
int MPI_Allgatherv(const void* from, int sent, MPI_Datatype from_type, void* to, const int* got,
                   const int* at, MPI_Datatype to_type, MPI_Comm comm) {
  ++mpi_calls().collectives;
  mpi_calls().gathered += sent;
  return PMPI_Allgatherv(from, sent, from_type, to, got, at, to_type, comm);
}
int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  ++mpi_calls().sends;
  return PMPI_Send(data, count, type, to, tag, comm);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++mpi_calls().sends;
  if (type == MPI_BYTE) {
    mpi_calls().sent_bytes += count;
    ++mpi_calls().by_tag[tag];
  }
  mpi_calls().partners.insert(to);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Iallgather(const void* from, int sent, MPI_Datatype from_type, void* to, int got,
                   MPI_Datatype to_type, MPI_Comm comm, MPI_Request* request) {
  ++mpi_calls().collectives;
  return PMPI_Iallgather(from, sent, from_type, to, got, to_type, comm, request);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  ++mpi_calls().receives;
  return PMPI_Recv(data, count, type, from, tag, comm, status);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  mpi_calls().partners.insert(from);
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
int MPI_Testsome(int count, MPI_Request* requests, int* finished, int* indices, MPI_Status* statuses) {
  mpi_calls().tested = std::max(mpi_calls().tested, count);
  return PMPI_Testsome(count, requests, finished, indices, statuses);
}

}  // extern "C"
