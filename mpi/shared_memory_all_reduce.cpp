// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>

#include "kernels/error.hpp"
#include "mpi/collectives.hpp"
#include "mpi/shared_barrier.hpp"
#include "mpi/shared_window.hpp"
#include "mpi/sum_arrays.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::size_t line = 64 / sizeof(float);

/// Up to here every rank adds everything itself, which saves the second barrier.
constexpr std::size_t mailbox_count = 2048;

/// What a rank was asked to sum.
struct Request {
  std::size_t offset;
  std::size_t count;
};

/// One rank's part of the memory for control. Requests and mailboxes are used in turn: when a rank comes to
/// use one again, all have arrived at the call between, so nobody reads the old content any more.
struct Control {
  Arrivals arrivals;
  struct alignas(128) Turn {
    Request request;
    alignas(64) std::array<float, mailbox_count> mailbox;
  };
  std::array<Turn, 2> turns;
};

class SharedMemoryAllReduce final : public Collectives {
 public:
  SharedMemoryAllReduce(const Communicator& group, SharedStorage& storage)
      : window_(group, sizeof(Control)),
        storage_(storage.mine()),
        rank_(group.rank()),
        barrier_(arrivals(), rank_) {
    require(group.size() == storage.ranks() && group.rank() == storage.rank(),
            "shared-memory all-reduce: the group is not that of the storage");
    for (int rank = 0; rank < group.size(); ++rank) arrays_.push_back(storage.of(rank).data());
    mailboxes_.resize(arrays_.size());
  }

  std::string_view name() const override { return "shared-memory"; }
  int ranks() const override { return static_cast<int>(arrays_.size()); }

  void all_reduce(std::span<float> data) override {
    const Request request = locate(data);
    const std::size_t turn = calls_++ % 2;
    if (request.count <= mailbox_count) {
      sum_small(request, turn);
    } else {
      sum_large(request, turn);
    }
  }

  std::size_t sent_bytes(std::size_t count) const override {
    if (count <= mailbox_count) return (arrays_.size() - 1) * count * sizeof(float);
    // Its slice to each other rank.
    return (arrays_.size() - 1) * count * sizeof(float) / arrays_.size();
  }

  std::vector<int> missing_ranks() const override { return barrier_.missing_ranks(); }

 private:
  Control& control(int rank) const {
    return *std::launder(reinterpret_cast<Control*>(window_.of(rank).data()));
  }

  std::vector<Arrivals*> arrivals() const {
    std::vector<Arrivals*> all;
    for (int rank = 0; rank < window_.ranks(); ++rank) all.push_back(&control(rank).arrivals);
    return all;
  }

  Request locate(std::span<float> data) const {
    if (data.empty()) return {0, 0};
    require(std::less_equal<>()(storage_.data(), data.data()) &&
                std::less_equal<>()(data.data() + data.size(), storage_.data() + storage_.size()),
            "shared-memory all-reduce of ", data.size(), " values that do not lie in the shared storage");
    return {static_cast<std::size_t>(data.data() - storage_.data()), data.size()};
  }

  void require_agreement(const Request& own, std::size_t turn) const {
    for (int rank = 0; rank < ranks(); ++rank) {
      const Request& other = control(rank).turns[turn].request;
      require(other.offset == own.offset && other.count == own.count, "shared-memory all-reduce: rank ",
              rank_, " sums ", own.count, " values from ", own.offset, ", rank ", rank, " ", other.count,
              " from ", other.offset);
    }
  }

  void sum_small(const Request& request, std::size_t turn) {
    Control::Turn& own = control(rank_).turns[turn];
    float* data = storage_.data() + request.offset;
    own.request = request;
    std::memcpy(own.mailbox.data(), data, request.count * sizeof(float));
    barrier_.arrive_and_wait();
    require_agreement(request, turn);
    for (int rank = 0; rank < ranks(); ++rank) {
      mailboxes_[static_cast<std::size_t>(rank)] = control(rank).turns[turn].mailbox.data();
    }
    sum_into(data, mailboxes_, request.count);
  }

  void sum_large(const Request& request, std::size_t turn) {
    control(rank_).turns[turn].request = request;
    barrier_.arrive_and_wait();
    require_agreement(request, turn);
    sum_into_all(arrays_, cut(request, rank_), cut(request, rank_ + 1));
    barrier_.arrive_and_wait();
  }

  /// Where the slice of `rank` begins: on a cache line, so that no line has two writers.
  std::size_t cut(const Request& request, int rank) const {
    const std::size_t end = request.offset + request.count;
    if (rank == 0) return request.offset;
    if (rank == ranks()) return end;
    const std::size_t lines = request.count / line;
    const std::size_t share = lines * static_cast<std::size_t>(rank) / arrays_.size();
    return std::min(end, (request.offset + share * line + line - 1) / line * line);
  }

  SharedWindow window_;
  std::span<float> storage_;
  int rank_;
  SharedBarrier barrier_;
  std::vector<float*> arrays_;
  std::vector<const float*> mailboxes_;
  std::size_t calls_ = 0;
};

}  // namespace

std::unique_ptr<Collectives> make_shared_memory_all_reduce(const Communicator& group,
                                                           SharedStorage& storage) {
  return std::make_unique<SharedMemoryAllReduce>(group, storage);
}

}  // namespace flotilla::mpi
