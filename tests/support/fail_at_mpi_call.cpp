// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include "tests/faults/fail_at_call.hpp"

// The calls of MPI among those that fail_at_call.cpp lets fail: MPI's functions have a second name, PMPI_….

using flotilla::test::fails;

namespace {

template <class Function, class... Arguments>
int call(const char* word, const char* name, const void* caller, Function real, Arguments... arguments) {
  return fails(word, caller, name) ? MPI_ERR_NO_MEM : real(arguments...);
}

}  // namespace

extern "C" {

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  return call("communicator", "MPI_Comm_split", __builtin_return_address(0), PMPI_Comm_split, comm, color,
              key, made);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  return call("communicator", "MPI_Comm_split_type", __builtin_return_address(0), PMPI_Comm_split_type, comm,
              type, key, info, made);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  return call("communicator", "MPI_Comm_dup", __builtin_return_address(0), PMPI_Comm_dup, comm, made);
}
int MPI_Barrier(MPI_Comm comm) {
  return call("message", "MPI_Barrier", __builtin_return_address(0), PMPI_Barrier, comm);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return call("message", "MPI_Ibarrier", __builtin_return_address(0), PMPI_Ibarrier, comm, request);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return call("message", "MPI_Bcast", __builtin_return_address(0), PMPI_Bcast, data, count, type, root, comm);
}
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return call("message", "MPI_Allreduce", __builtin_return_address(0), PMPI_Allreduce, from, to, count, type,
              op, comm);
}
int MPI_Allgather(const void* from, int sent, MPI_Datatype from_type, void* to, int got, MPI_Datatype to_type,
                  MPI_Comm comm) {
  return call("message", "MPI_Allgather", __builtin_return_address(0), PMPI_Allgather, from, sent, from_type,
              to, got, to_type, comm);
}
int MPI_Allgatherv(const void* from, int sent, MPI_Datatype from_type, void* to, const int* got,
                   const int* at, MPI_Datatype to_type, MPI_Comm comm) {
  return call("message", "MPI_Allgatherv", __builtin_return_address(0), PMPI_Allgatherv, from, sent,
              from_type, to, got, at, to_type, comm);
}
int MPI_Iallgather(const void* from, int sent, MPI_Datatype from_type, void* to, int got,
                   MPI_Datatype to_type, MPI_Comm comm, MPI_Request* request) {
  return call("message", "MPI_Iallgather", __builtin_return_address(0), PMPI_Iallgather, from, sent,
              from_type, to, got, to_type, comm, request);
}
int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return call("message", "MPI_Send", __builtin_return_address(0), PMPI_Send, data, count, type, to, tag,
              comm);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return call("message", "MPI_Isend", __builtin_return_address(0), PMPI_Isend, data, count, type, to, tag,
              comm, request);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  return call("message", "MPI_Recv", __builtin_return_address(0), PMPI_Recv, data, count, type, from, tag,
              comm, status);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return call("message", "MPI_Irecv", __builtin_return_address(0), PMPI_Irecv, data, count, type, from, tag,
              comm, request);
}

}  // extern "C"
