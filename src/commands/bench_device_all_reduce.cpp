// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_device_all_reduce.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/all_reduce/bench_data.hpp"
#include "mpi/all_reduce/bench_turns.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/core/groups.hpp"
#include "src/job/devices.hpp"
#include "src/job/failure.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/strategy/reduce/reduced_array.hpp"

namespace flotilla {

namespace {

class DeviceBench {
 public:
  DeviceBench(const BenchAllReduceArguments& arguments, const mpi::Communicator& world, Device& device,
              const std::vector<mpi::Place>& places, std::string no_nccl)
      : arguments_(arguments),
        world_(world),
        host_(world.split_by_host()),
        device_(device),
        places_(places),
        no_nccl_(std::move(no_nccl)) {}

  struct Way {
    ReductionConfig reduction;
    int communicators = 1;
  };
  /// All algorithms that are possible on these hosts.
  std::vector<Way> candidates() const {
    const std::vector<int> groups = mpi::cut_groups(places_, arguments_.ranks_per_group);
    const bool grouped = *std::ranges::max_element(groups) > 0;
    const bool in_equal_groups = grouped && mpi::groups_are_equal(groups);
    std::vector<Way> all;
    const auto add = [&](AllReduceKind kind, bool with_wires, bool in_lanes) {
      for (const Precision wire : {Precision::float32, Precision::float16, Precision::bfloat16}) {
        if (wire != Precision::float32 && !with_wires) break;
        for (const int lanes : {1, arguments_.communicators}) {
          if (lanes > 1 && !in_lanes) continue;
          all.push_back(
              {.reduction = {.all_reduce = kind, .ranks_per_group = arguments_.ranks_per_group, .wire = wire},
               .communicators = lanes});
          if (arguments_.communicators == 1) break;
        }
      }
    };
    if (no_nccl_.empty()) {
      add(AllReduceKind::nccl, false, true);
      if (in_equal_groups) add(AllReduceKind::nccl_hierarchical, false, true);
      if (in_equal_groups) add(AllReduceKind::nccl_mpi, true, false);
    }
    if (mpi::hosts(places_) == 1) add(AllReduceKind::shared_memory, false, true);
    if (grouped) add(AllReduceKind::hierarchical, true, true);
    add(AllReduceKind::mpi, true, true);
    return all;
  }

  void measure(const Way& way, const std::function<void(const mpi::AllReduceBenchRow&)>& on_row) const {
    const auto lanes = static_cast<std::size_t>(way.communicators);
    AllReducePlan plan = plan_all_reduce(way.reduction, places_, device_.info().shares_host_memory, "", lanes,
                                         mpi::SumOrder::any, no_nccl_, way.communicators);
    const std::size_t most = arguments_.max_bytes / sizeof(float);
    fit_to_shared_memory(plan, false, most, world_);
    const ReducedArray array(device_, most, plan, host_);
    const DeviceSpan<float> all = array.values();
    const Reduction reduction = make_reduction(plan, world_, host_, device_, array, std::span(&all, 1));
    std::vector<mpi::Collectives*> collectives;
    for (const auto& lane : reduction.lanes) collectives.push_back(lane.get());
    mpi::BenchLanes together(collectives);
    std::vector<float> host(all.size());
    for (std::size_t bytes = arguments_.min_bytes; bytes <= arguments_.max_bytes; bytes *= 2) {
      const DeviceSpan<float> data = all.subspan(0, bytes / sizeof(float));
      const std::span<float> copy = std::span(host).first(data.size());
      mpi::Candidate candidate;
      candidate.row = {.algorithm = std::string(word(way.reduction.all_reduce)),
                       .wire = plan.wire,
                       .communicators = plan.communicators,
                       .bytes = data.size() * sizeof(float)};
      candidate.fill = [&] {
        mpi::fill_for_exact_sum(copy, plan.wire, world_.rank(), world_.size());
        device_.memory().upload(copy, data);
        device_.queue().synchronize();
      };
      candidate.is_exact = [&] {
        device_.memory().download(data, copy);
        return mpi::is_exact_sum(copy, plan.wire, world_.size());
      };
      candidate.clear = [&] {
        device_.flat().fill(data, 0.0F);
        device_.queue().synchronize();
      };
      candidate.sum = [&] {
        if (lanes > 1) return together.sum(data);
        mpi::all_reduce_now(reduction.first(), data);
      };
      candidate.wait = [&] {
        for (mpi::Collectives* const lane : collectives) lane->wait();
        device_.queue().synchronize();
      };
      mpi::take_turns(world_, std::span(&candidate, 1), 0);
      on_row(candidate.row);
    }
  }

 private:
  const BenchAllReduceArguments& arguments_;
  const mpi::Communicator& world_;
  mpi::Communicator host_;
  Device& device_;
  const std::vector<mpi::Place>& places_;
  std::string no_nccl_;
};

}  // namespace

void bench_device_all_reduce(const BenchAllReduceArguments& arguments, const mpi::Communicator& world,
                             const std::function<void(const std::string&)>& say,
                             const std::function<void(const mpi::AllReduceBenchRow&)>& on_row) {
  DeviceConfig config;
  config.kind = arguments.device;
  config.share = true;
  const std::vector<mpi::Place> places = mpi::find_topology(world);
  const mpi::GpuBinding gpus = find_gpus(config, world, places);
  const auto own = static_cast<std::size_t>(world.rank());
  std::unique_ptr<Device> device;
  agree(world, places, [&] {
    device = make_device(config, Precision::float32, places[own], gpus.ordinal(world.rank()), false);
  });
  say("device " + device->info().description);
  const std::string no_nccl = flotilla::no_nccl(gpus, mpi::has_nccl());
  if (!no_nccl.empty()) say(cat("without NCCL: \"nccl\" ", no_nccl));
  const DeviceBench bench(arguments, world, *device, places, no_nccl);
  for (const auto& way : bench.candidates()) bench.measure(way, on_row);
}

}  // namespace flotilla
