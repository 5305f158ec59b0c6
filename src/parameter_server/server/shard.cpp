// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/shard.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

namespace {

/// The layout of a server's blocks in its share, each with the name of its tensor.
ArenaLayout packed_layout(const ShardPlan& of) {
  const auto& [plan, placement, server, share] = of;
  ArenaLayout layout;
  std::size_t packed = 0;  // Floats of the runs before this one
  auto run = share.runs.begin();
  for (const Block& block : placement.blocks()) {
    if (block.server != server) continue;
    const auto begin = static_cast<std::size_t>(plan.leading + block.offset);
    for (; begin >= run->end; ++run) packed += run->end - run->begin;
    layout.add_at(static_cast<std::int64_t>(packed + begin - run->begin), plan.layout[block.tensor].name,
                  {block.size}, plan.layout[block.tensor].kind);
  }
  layout.grow_to(static_cast<std::int64_t>(share.values()));
  return layout;
}

}  // namespace

Shard::Shard(Device& device, const OptimizerConfig& optimizer, const ShardPlan& of, Storage values)
    : device_(device),
      share_(of.share),
      leading_(of.server == 0 ? static_cast<std::size_t>(of.plan.leading) : 0),
      tensors_(of.plan.layout.slices().size()),
      values_(std::move(values)),
      optimizer_(make_optimizer(optimizer, packed_layout(of), device)),
      slots_(optimizer_->slots()) {
  require(device.info().shares_host_memory && values_.size() == share_.values(),
          "a server's values must lie in host memory, all of them");
  for (const Block& block : of.placement.blocks())
    if (block.server == of.server) tensors_of_blocks_.push_back(block.tensor);
}

DeviceSpan<float> Shard::statistics() {
  if (leading_ == 0) return {};
  return values_.span().subspan(header_size, leading_ - header_size);
}

std::span<float> Shard::host_array(std::int64_t number) {
  const auto index = static_cast<std::size_t>(number);
  require(number >= 0 && index <= slots_.size(), "a server of ", slots_.size(), " slots has no array ",
          number);
  const DeviceSpan<float> array = number == 0 ? values_.span() : slots_[index - 1].values;
  return {array.address(), array.size()};
}

std::span<const float> Shard::array(std::int64_t number) {
  return host_array(number);
}

void Shard::load(std::int64_t number, std::size_t begin, std::span<const float> values) {
  const std::span<float> array = host_array(number);
  const std::size_t end = begin + values.size();
  std::size_t packed = 0;
  for (const mpi::SliceBounds& run : share_.runs) {
    const std::size_t from = std::max(run.begin, begin);
    const std::size_t to = std::min(run.end, end);
    if (from < to)
      std::ranges::copy(values.subspan(from - begin, to - from),
                        array.begin() + static_cast<std::ptrdiff_t>(packed + from - run.begin));
    packed += run.end - run.begin;
  }
}

}  // namespace flotilla
