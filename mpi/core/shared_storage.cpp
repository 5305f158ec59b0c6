// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/shared_storage.hpp"

#include <array>
#include <cstdint>

#include "kernels/error.hpp"
#include "mpi/core/shared_window.hpp"

namespace flotilla::mpi {

struct SharedStorage::Impl {
  std::size_t count;
  SharedWindow window;
};

namespace {

std::size_t bytes_of(std::size_t count) {
  // Saturates: the window refuses what does not fit.
  return count > (std::size_t{1} << 60) ? std::size_t{1} << 62 : count * sizeof(float);
}

/// Collective. @returns count
std::size_t same_on_all(const Communicator& host, std::size_t count) {
  std::array first{static_cast<std::int64_t>(count)};
  host.broadcast(std::span<std::int64_t>(first));
  require(first[0] == static_cast<std::int64_t>(count), "shared memory: ", count, " floats on rank ",
          host.rank(), " of the host, ", first[0], " on its first");
  return count;
}

}  // namespace

SharedStorage::SharedStorage(const Communicator& host, std::size_t count)
    : impl_(new Impl{count, {host, bytes_of(same_on_all(host, count))}}) {}

SharedStorage::~SharedStorage() = default;

std::size_t SharedStorage::count() const {
  return impl_->count;
}
int SharedStorage::ranks() const {
  return impl_->window.ranks();
}
int SharedStorage::rank() const {
  return impl_->window.rank();
}

std::span<float> SharedStorage::of(int rank) {
  require(rank >= 0 && rank < ranks(), "shared storage of rank ", rank, " of ", ranks());
  return {reinterpret_cast<float*>(impl_->window.of(rank).data()), impl_->count};
}

}  // namespace flotilla::mpi
