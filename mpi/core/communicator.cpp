// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/communicator.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <iterator>
#include <numeric>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/backoff.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/native.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

namespace {

constexpr long patient_nap_ns = 1'000'000;
constexpr int gather_tag = 9;

MPI_Datatype type_of(float) {
  return MPI_FLOAT;
}
MPI_Datatype type_of(double) {
  return MPI_DOUBLE;
}
MPI_Datatype type_of(std::int32_t) {
  return MPI_INT32_T;
}
MPI_Datatype type_of(std::int64_t) {
  return MPI_INT64_T;
}
MPI_Datatype type_of(std::byte) {
  return MPI_BYTE;
}
MPI_Datatype type_of(char) {
  return MPI_CHAR;
}

MPI_Op native(Op op) {
  switch (op) {
    case Op::min: return MPI_MIN;
    case Op::max: return MPI_MAX;
    case Op::sum: break;
  }
  return MPI_SUM;
}

/// The rank in MPI_COMM_WORLD of the communicator's rank 0.
int first_rank(MPI_Comm comm) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  const int first = 0;
  int in_world = 0;
  check(MPI_Group_translate_ranks(group, 1, &first, world, &in_world), "MPI_Group_translate_ranks");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return in_world;
}

template <Scalar T>
void broadcast_pieces(MPI_Comm comm, std::span<T> data, int root, const CallSite& at) {
  for_each_piece(data.size(), largest_piece, [&](std::size_t offset, int count) {
    check(MPI_Bcast(data.data() + offset, count, type_of(T{}), root, comm), "MPI_Bcast", at.where);
  });
}

template <Scalar T>
void gather_pieces(MPI_Comm comm, int rank, std::span<const T> mine, std::span<T> all, const CallSite& at) {
  if (mine.size() <= largest_piece) {
    const int count = static_cast<int>(mine.size());
    check(MPI_Allgather(mine.data(), count, type_of(T{}), all.data(), count, type_of(T{}), comm),
          "MPI_Allgather", at.where);
    return;
  }
  for (std::size_t from = 0; from * mine.size() < all.size(); ++from) {
    const std::span part = all.subspan(mine.size() * from, mine.size());
    if (static_cast<int>(from) == rank) std::ranges::copy(mine, part.begin());
    broadcast_pieces(comm, part, static_cast<int>(from), at);
  }
}

std::vector<std::int64_t> gather_lengths(MPI_Comm comm, int ranks, std::size_t mine, const CallSite& at) {
  const auto length = static_cast<std::int64_t>(mine);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(ranks));
  gather_pieces(comm, 0, std::span(&length, 1), std::span(lengths), at);  // one value: one piece
  return lengths;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {
  check(MPI_Comm_set_errhandler(handle_->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(handle_->comm, &handle_->rank), "MPI_Comm_rank");
  check(MPI_Comm_size(handle_->comm, &handle_->size), "MPI_Comm_size");
}

Communicator Communicator::world() {
  static std::atomic<std::uint64_t> made{0};
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return Communicator(std::make_unique<Handle>(comm, ++made));
}

Communicator::Communicator(Communicator&&) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Communicator::~Communicator() {
  if (handle_ == nullptr || std::uncaught_exceptions() > 0) return;
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised == 0) MPI_Comm_free(&handle_->comm);
}

int Communicator::rank() const {
  return handle_->rank;
}
int Communicator::size() const {
  return handle_->size;
}

Communicator NativeHandle::made(const Communicator& by, MPI_Comm comm) {
  return Communicator(std::make_unique<Communicator::Handle>(comm, log(by).made(first_rank(comm))));
}

Communicator Communicator::collective_clone(CallSite at) const {
  const CollectiveScope call(*this, "copy of the communicator", at);
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(handle_->comm, &comm), "MPI_Comm_dup", at.where);
  return NativeHandle::made(*this, comm);
}

Communicator Communicator::split(int color, CallSite at) const {
  const CollectiveScope call(*this, "split of the communicator", at);
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split(handle_->comm, color, rank(), &comm), "MPI_Comm_split", at.where);
  return NativeHandle::made(*this, comm);
}

Communicator Communicator::split_by_host(CallSite at) const {
  const CollectiveScope call(*this, "split by host", at);
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split_type(handle_->comm, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &comm),
        "MPI_Comm_split_type", at.where);
  return NativeHandle::made(*this, comm);
}

void Communicator::barrier(CallSite at) const {
  const CollectiveScope call(*this, "barrier", at);
  check(MPI_Barrier(handle_->comm), "MPI_Barrier", at.where);
}

void Communicator::patient_barrier(CallSite at) const {
  // Collectives are not compared first as in barrier(): that would wait actively.
  handle_->log.begin("barrier", "", -1, at);
  const WaitingScope waiting(handle_->log);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(handle_->comm, &request), "MPI_Ibarrier", at.where);
  wait_until([&request] { return completed(request); }, Backoff(0, 0, patient_nap_ns));
}

template <Scalar T>
void Communicator::broadcast(std::span<T> data, int root, CallSite at) const {
  const CollectiveScope call(*this, "broadcast", type_word<T>(), std::ssize(data), at);
  broadcast_pieces(handle_->comm, data, root, at);
}

void Communicator::broadcast(std::string& text, int root, CallSite at) const {
  const CollectiveScope call(*this, "broadcast of a text", at);
  auto length = static_cast<std::int64_t>(text.size());
  broadcast_pieces(handle_->comm, std::span(&length, 1), root, at);
  text.resize(static_cast<std::size_t>(length));
  broadcast_pieces(handle_->comm, std::span(text.data(), text.size()), root, at);
}

template <Number T>
void Communicator::all_reduce(std::span<T> data, Op op, CallSite at) const {
  const CollectiveScope call(*this, "all-reduce", type_word<T>(), std::ssize(data), at);
  for_each_piece(data.size(), largest_piece, [&](std::size_t offset, int count) {
    check(MPI_Allreduce(MPI_IN_PLACE, data.data() + offset, count, type_of(T{}), native(op), handle_->comm),
          "MPI_Allreduce", at.where);
  });
}

template <Scalar T>
std::vector<T> Communicator::all_gather(std::span<const T> mine, CallSite at) const {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(size()));
  all_gather(mine, std::span<T>(all), at);
  return all;
}

template <Scalar T>
void Communicator::all_gather(std::span<const T> mine, std::span<T> all, CallSite at) const {
  require(all.size() == mine.size() * static_cast<std::size_t>(size()), "all_gather of ", mine.size(),
          " values of each of ", size(), " ranks into ", all.size());
  const CollectiveScope call(*this, "all-gather", type_word<T>(), std::ssize(mine), at);
  gather_pieces(handle_->comm, rank(), mine, all, at);
}

std::vector<std::string> Communicator::all_gather(const std::string& mine, CallSite at) const {
  const CollectiveScope call(*this, "all-gather of texts", at);
  const std::vector<std::int64_t> lengths = gather_lengths(handle_->comm, size(), mine.size(), at);
  std::vector<std::string> all(lengths.size());
  const auto own = static_cast<std::size_t>(rank());
  std::string part;
  for_each_gather(lengths, largest_piece, [&](std::span<const int> counts, std::span<const int> begins) {
    part.resize(static_cast<std::size_t>(begins.back() + counts.back()));
    check(MPI_Allgatherv(mine.data() + all[own].size(), counts[own], MPI_CHAR, part.data(), counts.data(),
                         begins.data(), MPI_CHAR, handle_->comm),
          "MPI_Allgatherv", at.where);
    for (std::size_t from = 0; from < all.size(); ++from)
      all[from].append(part, static_cast<std::size_t>(begins[from]), static_cast<std::size_t>(counts[from]));
  });
  return all;
}

template <Scalar T>
std::vector<T> Communicator::gather(std::span<const T> mine, CallSite at) const {
  const CollectiveScope call(*this, "gather", type_word<T>(), -1, at);
  const std::vector<std::int64_t> lengths = gather_lengths(handle_->comm, size(), mine.size(), at);
  if (!is_root()) {
    for_each_piece(mine.size(), largest_piece, [&](std::size_t offset, int count) {
      check(MPI_Send(mine.data() + offset, count, type_of(T{}), 0, gather_tag, handle_->comm), "MPI_Send",
            at.where);
    });
    return {};
  }
  std::vector<T> all(static_cast<std::size_t>(std::reduce(lengths.begin(), lengths.end())));
  T* to = std::ranges::copy(mine, all.data()).out;
  for (int from = 1; from < size(); ++from) {
    const auto length = static_cast<std::size_t>(lengths[static_cast<std::size_t>(from)]);
    for_each_piece(length, largest_piece, [&](std::size_t offset, int count) {
      check(MPI_Recv(to + offset, count, type_of(T{}), from, gather_tag, handle_->comm, MPI_STATUS_IGNORE),
            "MPI_Recv", at.where);
    });
    to += length;
  }
  return all;
}

template void Communicator::broadcast(std::span<float>, int, CallSite) const;
template void Communicator::broadcast(std::span<double>, int, CallSite) const;
template void Communicator::broadcast(std::span<std::int32_t>, int, CallSite) const;
template void Communicator::broadcast(std::span<std::int64_t>, int, CallSite) const;
template void Communicator::broadcast(std::span<std::byte>, int, CallSite) const;
template void Communicator::broadcast(std::span<char>, int, CallSite) const;
template void Communicator::all_reduce(std::span<float>, Op, CallSite) const;
template void Communicator::all_reduce(std::span<double>, Op, CallSite) const;
template void Communicator::all_reduce(std::span<std::int32_t>, Op, CallSite) const;
template void Communicator::all_reduce(std::span<std::int64_t>, Op, CallSite) const;
template std::vector<float> Communicator::all_gather(std::span<const float>, CallSite) const;
template std::vector<double> Communicator::all_gather(std::span<const double>, CallSite) const;
template std::vector<std::int32_t> Communicator::all_gather(std::span<const std::int32_t>, CallSite) const;
template std::vector<std::int64_t> Communicator::all_gather(std::span<const std::int64_t>, CallSite) const;
template std::vector<std::byte> Communicator::all_gather(std::span<const std::byte>, CallSite) const;
template std::vector<char> Communicator::all_gather(std::span<const char>, CallSite) const;
template void Communicator::all_gather(std::span<const float>, std::span<float>, CallSite) const;
template void Communicator::all_gather(std::span<const double>, std::span<double>, CallSite) const;
template void Communicator::all_gather(std::span<const std::int32_t>, std::span<std::int32_t>,
                                       CallSite) const;
template void Communicator::all_gather(std::span<const std::int64_t>, std::span<std::int64_t>,
                                       CallSite) const;
template void Communicator::all_gather(std::span<const std::byte>, std::span<std::byte>, CallSite) const;
template void Communicator::all_gather(std::span<const char>, std::span<char>, CallSite) const;
template std::vector<float> Communicator::gather(std::span<const float>, CallSite) const;
template std::vector<double> Communicator::gather(std::span<const double>, CallSite) const;
template std::vector<char> Communicator::gather(std::span<const char>, CallSite) const;

}  // namespace flotilla::mpi
