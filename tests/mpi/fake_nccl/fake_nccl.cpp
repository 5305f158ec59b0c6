// SPDX-License-Identifier: Apache-2.0
#include "tests/mpi/fake_nccl/fake_nccl.hpp"

#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

namespace {

struct FakeCommunicator {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int gpu = 0;
  int number = 0;
  int sums_of_doubles = 0;          ///< Launched
  std::atomic<bool> broken{false};  ///< Its network alone
};

/// What the unique id holds.
struct Meeting {
  int root = 0;  ///< Rank in MPI_COMM_WORLD
  int number = 0;
};

int meetings = 0;
int communicators = 0;
int launches = 0;
int group_depth = 0;
std::atomic<int> aborts{0};
std::atomic<bool> broken{false};
std::atomic<bool> slow{false};
bool refuses_next = false;
std::vector<flotilla::test::FakeLaunch> launched;

/// Takes some time, so that other threads run in between.
void take_time() {
  if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

FakeCommunicator* communicator_of(ncclComm_t handle) {
  return reinterpret_cast<FakeCommunicator*>(handle);
}

/// The ranks of MPI_COMM_WORLD that meet, in their order in the new communicator.
std::vector<int> meet(const Meeting& meeting, int rank, int size) {
  const int tag = 20'000 + meeting.number % 10'000;
  int own[2] = {rank, 0};
  MPI_Comm_rank(MPI_COMM_WORLD, &own[1]);
  std::vector<int> members(static_cast<std::size_t>(size));
  if (own[1] != meeting.root) {
    MPI_Send(own, 2, MPI_INT, meeting.root, tag, MPI_COMM_WORLD);
    MPI_Recv(members.data(), size, MPI_INT, meeting.root, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return members;
  }
  members[static_cast<std::size_t>(rank)] = own[1];
  for (int arrived = 1; arrived < size; ++arrived) {
    int other[2] = {};
    MPI_Recv(other, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    members[static_cast<std::size_t>(other[0])] = other[1];
  }
  for (const int member : members)
    if (member != own[1]) MPI_Send(members.data(), size, MPI_INT, member, tag, MPI_COMM_WORLD);
  return members;
}

int current_gpu() {
  int ordinal = -1;
  cudaGetDevice(&ordinal);
  return ordinal;
}

/// GPUs read and write what lies in their memory, or is page-locked, and aligned to its values.
bool is_usable(const void* memory, std::size_t floats) {
  if (floats == 0) return true;
  const auto* const bytes = static_cast<const std::byte*>(memory);
  for (const void* const end : {bytes, bytes + floats * sizeof(float) - 1}) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, end) != cudaSuccess ||
        attributes.type == cudaMemoryTypeUnregistered)
      return false;
  }
  return reinterpret_cast<std::uintptr_t>(memory) % sizeof(float) == 0;
}

/// Whether an all-gather is in place as documented, or its arrays lie apart.
bool may_gather(const float* from, const float* to, std::size_t count, const FakeCommunicator& over) {
  const auto size = static_cast<std::size_t>(over.size);
  return from == to + static_cast<std::size_t>(over.rank) * count || from + count <= to ||
         to + size * count <= from;
}

/// NCCL would hang, or mix values up.
void check_that_all_call_it(const char* name, std::size_t floats, const FakeCommunicator& over) {
  const auto called = static_cast<long>(std::hash<std::string_view>{}(name) % 1000 + 1000 * floats);
  long both[] = {called, -called};
  MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_LONG, MPI_MAX, over.comm);
  if (both[0] == -both[1]) return;
  std::fprintf(stderr, "fake NCCL: ranks differ in their calls, this one in %s of %zu floats\n", name,
               floats);
  std::abort();
}

using Work = std::function<void()>;

void run(void* work) {
  const std::unique_ptr<Work> owner(static_cast<Work*>(work));
  (*owner)();
}

/// What all collectives have in common; `work` happens on the stream.
ncclResult_t launch(const char* name, std::size_t floats, ncclDataType_t type, ncclComm_t handle,
                    cudaStream_t stream, std::function<void(const FakeCommunicator&)> work) {
  if (std::exchange(refuses_next, false)) {
    group_depth = 0;
    return ncclInvalidUsage;
  }
  const FakeCommunicator& communicator = *communicator_of(handle);
  if ((type != ncclFloat32 && type != ncclFloat64) || current_gpu() != communicator.gpu)
    return ncclInvalidArgument;
  launched.push_back({name, floats, communicator.number, launches});
  if (group_depth == 0) ++launches;
  auto queued = std::make_unique<Work>([=, &communicator, work = std::move(work)] {
    check_that_all_call_it(name, floats, communicator);
    work(communicator);
  });
  const cudaError_t code = cudaLaunchHostFunc(stream, run, queued.release());
  return code == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

const void* in_place_or(const void* from, const void* to) {
  return from == to ? MPI_IN_PLACE : from;
}

/// In place, as the norms have it, whose network alone may be asked to break.
ncclResult_t sum_doubles(double* values, std::size_t count, ncclComm_t handle, cudaStream_t stream) {
  if (!is_usable(values, 2 * count) || reinterpret_cast<std::uintptr_t>(values) % sizeof(double) != 0)
    return ncclInvalidArgument;
  FakeCommunicator& all = *communicator_of(handle);
  static const char* const working = std::getenv("FLOTILLA_FAKE_NCCL_DOUBLES");
  const bool breaks = working != nullptr && all.sums_of_doubles++ == std::atoi(working);
  return launch(
      "all-reduce of doubles", count, ncclFloat64, handle, stream, [=, &all](const FakeCommunicator& over) {
        if (breaks) {
          all.broken = true;
          while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
        }
        MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, over.comm);
      });
}

}  // namespace

namespace flotilla::test {

std::vector<FakeLaunch> take_fake_launches() {
  return std::exchange(launched, {});
}

int fake_communicators() {
  return communicators;
}

int fake_aborts() {
  return aborts;
}

void break_fake_network() {
  broken = true;
}

void slow_fake_down() {
  slow = true;
}

void refuse_next_fake_call() {
  refuses_next = true;
}

}  // namespace flotilla::test

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote process exited or there was a network error" : "invalid usage";
}

const char* ncclGetLastError(ncclComm_t handle) {
  return broken || (handle != nullptr && communicator_of(handle)->broken) ? "the fake network broke" : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Meeting meeting{.number = meetings++};
  MPI_Comm_rank(MPI_COMM_WORLD, &meeting.root);
  std::memcpy(id->internal, &meeting, sizeof(meeting));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 1 || current_gpu() < 0) return ncclInvalidArgument;
  Meeting meeting;
  std::memcpy(&meeting, id.internal, sizeof(meeting));
  const std::vector<int> members = meet(meeting, rank, size);
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, size, members.data(), &group);
  auto* const made =
      new FakeCommunicator{.rank = rank, .size = size, .gpu = current_gpu(), .number = communicators++};
  MPI_Comm_create_group(MPI_COMM_WORLD, group, meeting.root, &made->comm);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  *handle = reinterpret_cast<ncclComm_t>(made);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  FakeCommunicator* const communicator = communicator_of(handle);
  MPI_Comm_free(&communicator->comm);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t) {
  ++aborts;
  std::fputs("fake NCCL: aborted\n", stderr);
  take_time();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* code) {
  *code = broken || communicator_of(handle)->broken ? ncclRemoteError : ncclSuccess;
  take_time();
  if (aborts > 0) std::fputs("fake NCCL: a communicator is used that was given up\n", stderr);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group_depth == 0) ++launches;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t handle, cudaStream_t stream) {
  if (type == ncclFloat64) return sum_doubles(static_cast<double*>(to), count, handle, stream);
  return launch("all-reduce", count, type, handle, stream, [=](const FakeCommunicator& over) {
    MPI_Allreduce(in_place_or(from, to), to, static_cast<int>(count), MPI_FLOAT, MPI_SUM, over.comm);
  });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t handle, cudaStream_t stream) {
  return launch("reduce-scatter", count, type, handle, stream, [=](const FakeCommunicator& over) {
    std::vector<float> sums(count);
    MPI_Reduce_scatter_block(from, sums.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, over.comm);
    std::ranges::copy(sums, static_cast<float*>(to));
  });
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                        int root, ncclComm_t handle, cudaStream_t stream) {
  return launch("reduce", count, type, handle, stream, [=](const FakeCommunicator& over) {
    MPI_Reduce(over.rank == root ? in_place_or(from, to) : from, to, static_cast<int>(count), MPI_FLOAT,
               MPI_SUM, root, over.comm);
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t handle, cudaStream_t stream) {
  const FakeCommunicator& all = *communicator_of(handle);
  if (!is_usable(from, count) || !is_usable(to, count * static_cast<std::size_t>(all.size)) ||
      !may_gather(static_cast<const float*>(from), static_cast<const float*>(to), count, all))
    return ncclInvalidArgument;
  return launch("all-gather", count, type, handle, stream, [=](const FakeCommunicator& over) {
    const std::vector<float> own(static_cast<const float*>(from), static_cast<const float*>(from) + count);
    MPI_Allgather(own.data(), static_cast<int>(count), MPI_FLOAT, to, static_cast<int>(count), MPI_FLOAT,
                  over.comm);
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t handle, cudaStream_t stream) {
  return launch("broadcast", count, type, handle, stream, [=](const FakeCommunicator& over) {
    if (over.rank == root && from != to) std::memcpy(to, from, count * sizeof(float));
    MPI_Bcast(to, static_cast<int>(count), MPI_FLOAT, root, over.comm);
  });
}
