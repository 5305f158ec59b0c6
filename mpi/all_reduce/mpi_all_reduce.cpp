// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/slice_exchange.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

namespace {

class MpiAllReduce final : public Collectives {
 public:
  explicit MpiAllReduce(const Communicator& group) : group_(group.collective_clone()) {}

  int ranks() const override { return group_.size(); }
  void all_reduce(DeviceSpan<float> array, CallSite at) override {
    const std::span<float> data = host_span(array);
    for_each_piece(data.size(), mpi_all_reduce_piece, [&](std::size_t offset, int count) {
      group_.all_reduce(data.subspan(offset, static_cast<std::size_t>(count)), Op::sum, at);
    });
  }

  std::size_t sent_bytes(std::size_t count) const override {
    // Reduce-scatter and all-gather: 2 (n − 1) / n of the data (Rabenseifner's and the ring algorithm alike).
    const auto n = static_cast<std::size_t>(group_.size());
    return 2 * (n - 1) * count * sizeof(float) / n;
  }

 private:
  Communicator group_;
};

/// The number of each rank's host; empty if there is only one.
std::vector<int> hosts_of(const Communicator& group) {
  const Communicator host = group.split_by_host();
  int first = group.rank();
  host.all_reduce(std::span(&first, 1), Op::min);
  std::vector<int> hosts = group.all_gather(std::span<const int>(&first, 1));
  if (std::ranges::count(hosts, hosts.front()) == std::ssize(hosts)) hosts.clear();
  return hosts;
}

/// By the steps of sum_tree.hpp: MPI has no half type to add and names no order.
class TreeAllReduce final : public Collectives {
 public:
  TreeAllReduce(const Communicator& group, Wire wire)
      : exchange_(new SliceExchange(
            group, [wire, ranks = group.size(), rank = group.rank(),
                    hosts = wire == Wire::float32 ? std::vector<int>() : hosts_of(group)](std::size_t count) {
              return sum_steps(ranks, rank, count, wire, hosts);
            })) {}

  int ranks() const override { return exchange_->ranks(); }
  void all_reduce(DeviceSpan<float> array, CallSite at) override {
    const std::span<float> data = host_span(array);
    for_each_piece(data.size(), mpi_all_reduce_piece, [&](std::size_t offset, int count) {
      const auto length = static_cast<std::size_t>(count);
      exchange_->take(exchange_->steps(length), data.subspan(offset, length), "all-reduce in a tree", at);
    });
  }

  std::size_t sent_bytes(std::size_t count) const override {
    std::size_t sum = 0;
    for_each_piece(count, mpi_all_reduce_piece, [&](std::size_t, int piece) {
      sum += exchange_->sent_bytes(static_cast<std::size_t>(piece));
    });
    return sum;
  }

  std::vector<int> missing_ranks() const override { return exchange_->missing_ranks(); }

 private:
  SliceExchangeHandle exchange_;
};

}  // namespace

std::unique_ptr<Collectives> make_mpi_all_reduce(const Communicator& group, Wire wire, SumOrder order) {
  require(order == SumOrder::any || wire == Wire::float32, "the tree's order on a half wire");
  if (wire == Wire::float32 && order == SumOrder::any) return std::make_unique<MpiAllReduce>(group);
  return std::make_unique<TreeAllReduce>(group, wire);
}

}  // namespace flotilla::mpi
