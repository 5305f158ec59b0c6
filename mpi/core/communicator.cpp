// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/communicator.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/backoff.hpp"
#include "mpi/core/native.hpp"
#include "mpi/core/pieces.hpp"

namespace flotilla::mpi {

namespace {

constexpr long patient_nap_ns = 1'000'000;

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

}  // namespace

Communicator::Communicator(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {
  check(MPI_Comm_set_errhandler(handle_->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(handle_->comm, &handle_->rank), "MPI_Comm_rank");
  check(MPI_Comm_size(handle_->comm, &handle_->size), "MPI_Comm_size");
}

Communicator Communicator::world() {
  auto handle = std::make_unique<Handle>();
  check(MPI_Comm_dup(MPI_COMM_WORLD, &handle->comm), "MPI_Comm_dup");
  return Communicator(std::move(handle));
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

Communicator Communicator::collective_clone() const {
  auto handle = std::make_unique<Handle>();
  check(MPI_Comm_dup(handle_->comm, &handle->comm), "MPI_Comm_dup");
  return Communicator(std::move(handle));
}

Communicator Communicator::split(int color) const {
  auto handle = std::make_unique<Handle>();
  check(MPI_Comm_split(handle_->comm, color, rank(), &handle->comm), "MPI_Comm_split");
  return Communicator(std::move(handle));
}

Communicator Communicator::split_by_host() const {
  auto handle = std::make_unique<Handle>();
  check(MPI_Comm_split_type(handle_->comm, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &handle->comm),
        "MPI_Comm_split_type");
  return Communicator(std::move(handle));
}

void Communicator::barrier() const {
  check(MPI_Barrier(handle_->comm), "MPI_Barrier");
}

void Communicator::patient_barrier() const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(handle_->comm, &request), "MPI_Ibarrier");
  wait_until([&request] { return completed(request); }, Backoff(0, 0, patient_nap_ns));
}

template <Scalar T>
void Communicator::broadcast(std::span<T> data, int root) const {
  for_each_piece(data.size(), largest_piece, [&](std::size_t offset, int count) {
    check(MPI_Bcast(data.data() + offset, count, type_of(T{}), root, handle_->comm), "MPI_Bcast");
  });
}

void Communicator::broadcast(std::string& text, int root) const {
  auto length = static_cast<std::int64_t>(text.size());
  broadcast(std::span(&length, 1), root);
  text.resize(static_cast<std::size_t>(length));
  broadcast(std::span(text.data(), text.size()), root);
}

template <Number T>
void Communicator::all_reduce(std::span<T> data, Op op) const {
  for_each_piece(data.size(), largest_piece, [&](std::size_t offset, int count) {
    check(MPI_Allreduce(MPI_IN_PLACE, data.data() + offset, count, type_of(T{}), native(op), handle_->comm),
          "MPI_Allreduce");
  });
}

template <Scalar T>
std::vector<T> Communicator::all_gather(std::span<const T> mine) const {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(size()));
  all_gather(mine, std::span<T>(all));
  return all;
}

template <Scalar T>
void Communicator::all_gather(std::span<const T> mine, std::span<T> all) const {
  require(all.size() == mine.size() * static_cast<std::size_t>(size()), "all_gather of ", mine.size(),
          " values of each of ", size(), " ranks into ", all.size());
  if (mine.size() <= largest_piece) {
    const int count = static_cast<int>(mine.size());
    check(MPI_Allgather(mine.data(), count, type_of(T{}), all.data(), count, type_of(T{}), handle_->comm),
          "MPI_Allgather");
    return;
  }
  for (int from = 0; from < size(); ++from) {
    const std::span part = all.subspan(mine.size() * static_cast<std::size_t>(from), mine.size());
    if (from == rank()) std::ranges::copy(mine, part.begin());
    broadcast(part, from);
  }
}

std::vector<std::string> Communicator::all_gather(const std::string& mine) const {
  const auto length = static_cast<std::int64_t>(mine.size());
  const std::vector<std::int64_t> lengths = all_gather(std::span(&length, 1));
  std::vector<std::string> all;
  for (int from = 0; from < size(); ++from) {
    std::string text = from == rank() ? mine : std::string();
    text.resize(static_cast<std::size_t>(lengths[static_cast<std::size_t>(from)]));
    broadcast(std::span(text.data(), text.size()), from);
    all.push_back(std::move(text));
  }
  return all;
}

template void Communicator::broadcast(std::span<float>, int) const;
template void Communicator::broadcast(std::span<double>, int) const;
template void Communicator::broadcast(std::span<std::int32_t>, int) const;
template void Communicator::broadcast(std::span<std::int64_t>, int) const;
template void Communicator::broadcast(std::span<std::byte>, int) const;
template void Communicator::broadcast(std::span<char>, int) const;
template void Communicator::all_reduce(std::span<float>, Op) const;
template void Communicator::all_reduce(std::span<double>, Op) const;
template void Communicator::all_reduce(std::span<std::int32_t>, Op) const;
template void Communicator::all_reduce(std::span<std::int64_t>, Op) const;
template std::vector<float> Communicator::all_gather(std::span<const float>) const;
template std::vector<double> Communicator::all_gather(std::span<const double>) const;
template std::vector<std::int32_t> Communicator::all_gather(std::span<const std::int32_t>) const;
template std::vector<std::int64_t> Communicator::all_gather(std::span<const std::int64_t>) const;
template std::vector<std::byte> Communicator::all_gather(std::span<const std::byte>) const;
template std::vector<char> Communicator::all_gather(std::span<const char>) const;
template void Communicator::all_gather(std::span<const float>, std::span<float>) const;
template void Communicator::all_gather(std::span<const double>, std::span<double>) const;
template void Communicator::all_gather(std::span<const std::int32_t>, std::span<std::int32_t>) const;
template void Communicator::all_gather(std::span<const std::int64_t>, std::span<std::int64_t>) const;
template void Communicator::all_gather(std::span<const std::byte>, std::span<std::byte>) const;
template void Communicator::all_gather(std::span<const char>, std::span<char>) const;

}  // namespace flotilla::mpi
