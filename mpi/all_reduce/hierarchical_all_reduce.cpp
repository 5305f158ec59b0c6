// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/emulated_link.hpp"
#include "mpi/all_reduce/shared_memory_all_reduce.hpp"
#include "mpi/all_reduce/slice_exchange.hpp"
#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

namespace {

int smallest_size(const Communicator& world, const Communicator& group) {
  int size = group.size();
  world.all_reduce(std::span(&size, 1), Op::min);
  return size;
}

/// The members of every group that have the same slice; alone in it the members that have none.
Communicator same_slice(const Communicator& world, const Communicator& group, int slices) {
  return world.split(group.rank() < slices ? group.rank() : slices + world.rank());
}

/// @param of_group ranks of a communicator @param group all its ranks, as ranks of the world
std::vector<int> in_world(std::vector<int> of_group, const std::vector<int>& group) {
  for (int& rank : of_group) rank = group[static_cast<std::size_t>(rank)];
  return of_group;
}

/// Across groups: in the tree wherever the wire allows it, because MPI_Allreduce would keep a processor busy
/// while the wire is (docs/appendix/performance.md).
std::unique_ptr<Collectives> make_across(const Communicator& members, Wire wire, const WireRounding* rounding,
                                         EmulatedLink* link) {
  const SumOrder order = wire == Wire::float32 ? SumOrder::tree : SumOrder::any;
  auto sums = is_scaled(wire) ? make_scaled_all_reduce(members, wire, *rounding)
                              : make_mpi_all_reduce(members, wire, order);
  return make_slowed_all_reduce(members, std::move(sums), link, wire, order);
}

class Hierarchical : public Collectives {
 public:
  Hierarchical(const Communicator& world, const Communicator& group, Wire wire, const WireRounding* rounding,
               EmulatedLink* link)
      : ranks_(world.size()), slices_(smallest_size(world, group)), member_(group.rank()) {
    const Communicator owners = same_slice(world, group, slices_);
    across_ = make_across(owners, wire, rounding, link);
    const int own = world.rank();
    members_ = group.all_gather(std::span(&own, 1));
    owners_ = owners.all_gather(std::span(&own, 1));
  }

  int ranks() const final { return ranks_; }
  std::vector<int> missing_ranks() const final {
    std::vector<int> missing = in_world(missing_inside(), members_);
    return missing.empty() ? in_world(across_->missing_ranks(), owners_) : missing;
  }

 protected:
  bool has_slice() const { return member_ < slices_; }
  int slices() const { return slices_; }
  int member() const { return member_; }
  const std::vector<int>& members() const { return members_; }  ///< The group's, as ranks of the world
  Collectives& across() const { return *across_; }
  virtual std::vector<int> missing_inside()
      const = 0;  ///< As missing_ranks(), for the group and by its numbers

 private:
  int ranks_;
  int slices_;
  int member_;
  std::unique_ptr<Collectives> across_;
  std::vector<int> members_;
  std::vector<int> owners_;  ///< Owners of this rank's slice, as ranks of the world
};

/// Inside the group through shared memory.
class HierarchicalInMemory final : public Hierarchical {
 public:
  HierarchicalInMemory(const Communicator& world, const Communicator& group, SharedStorage& storage,
                       Wire wire, const WireRounding* rounding, EmulatedLink* link)
      : Hierarchical(world, group, wire, rounding, link), group_(group, storage) {}

  void all_reduce(DeviceSpan<float> array, CallSite at) override {
    const std::span<float> data = host_span(array);
    const std::size_t offset = group_.meet(data, at);
    if (has_slice()) {
      const SliceBounds mine = slice_of(offset, data.size(), member(), slices());
      const auto own = static_cast<std::size_t>(member());
      sum_into(group_.arrays(), own, mine.begin, mine.end);
      across().all_reduce(array.subspan(mine.begin - offset, mine.end - mine.begin), at);
      copy_to_others(group_.arrays(), own, mine.begin, mine.end);
    }
    group_.part();
  }

  std::size_t sent_bytes(std::size_t count) const override {
    if (!has_slice()) return 0;
    const SliceBounds mine = slice_of(0, count, member(), slices());
    const std::size_t size = mine.end - mine.begin;
    return across().sent_bytes(size) + (members().size() - 1) * size * sizeof(float);
  }

 private:
  std::vector<int> missing_inside() const override { return group_.missing_ranks(); }

  SharedGroup group_;
};

/// Inside the group over MPI: its ranks are on several hosts, or the data lies elsewhere.
class HierarchicalOverMpi final : public Hierarchical {
 public:
  HierarchicalOverMpi(const Communicator& world, const Communicator& group, Wire wire,
                      const WireRounding* rounding, EmulatedLink* link)
      : Hierarchical(world, group, wire, rounding, link),
        inside_(new SliceExchange(
            group, [ranks = group.size(), rank = member(), owners = slices()](std::size_t count) {
              return direct_steps(ranks, rank, owners, count);
            })) {}

  void all_reduce(DeviceSpan<float> array, CallSite at) override {
    const std::span<float> data = host_span(array);
    for_each_piece(data.size(), mpi_all_reduce_piece, [&](std::size_t offset, int count) {
      const auto piece = data.subspan(offset, static_cast<std::size_t>(count));
      const std::span<const SumStep> steps = inside_->steps(piece.size());
      inside_->take(steps.first(1), piece, "reduce-scatter of slices", at);
      if (const SliceBounds mine = steps.front().sum; has_slice())
        across().all_reduce(array.subspan(offset + mine.begin, mine.end - mine.begin), at);
      inside_->take(steps.last(1), piece, "all-gather of slices", at);
    });
  }

  std::size_t sent_bytes(std::size_t count) const override {
    std::size_t sum = 0;
    for_each_piece(count, mpi_all_reduce_piece, [&](std::size_t, int piece) {
      const auto length = static_cast<std::size_t>(piece);
      const SliceBounds mine = inside_->steps(length).front().sum;
      sum += inside_->sent_bytes(length) + (has_slice() ? across().sent_bytes(mine.end - mine.begin) : 0);
    });
    return sum;
  }

 private:
  std::vector<int> missing_inside() const override { return inside_->missing_ranks(); }

  SliceExchangeHandle inside_;
};

}  // namespace

std::unique_ptr<Collectives> make_hierarchical_all_reduce(const Communicator& world,
                                                          const Communicator& group, SharedStorage* storage,
                                                          Wire wire, const WireRounding* rounding,
                                                          EmulatedLink* link) {
  if (storage == nullptr) return std::make_unique<HierarchicalOverMpi>(world, group, wire, rounding, link);
  return std::make_unique<HierarchicalInMemory>(world, group, *storage, wire, rounding, link);
}

}  // namespace flotilla::mpi
