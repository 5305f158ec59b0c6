// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "src/optim/optimizer.hpp"
#include "src/parameter_server/protocol/serve_plan.hpp"

namespace flotilla {

/// The part of the model that one server owns.
struct ShardPlan {
  const ServePlan& plan;
  const Placement& placement;
  int server = 0;
  mpi::ServerShare share{};  ///< Share of this server, from shares_of()
};

/// One server's part of the parameters (on server 0 after the header and statistics), packed in the order of
/// the arena, with the optimizer's slots.
class Shard {
 public:
  /// @param values zeroed host memory for them
  Shard(Device& device, const OptimizerConfig& optimizer, const ShardPlan& of, Storage values);

  std::size_t size() const { return values_.size(); }  ///< Floats; of each array, too.
  /// Floats before the parameters: 0 except on server 0.
  std::size_t leading() const { return leading_; }
  DeviceSpan<float> values() { return values_.span(); }
  DeviceSpan<float> parameters() { return behind_leading(values_.span()); }
  DeviceSpan<float> statistics();
  /// The part of an array as large as this shard that belongs to the parameters.
  DeviceSpan<float> behind_leading(DeviceSpan<float> array) const {
    return array.subspan(leading_, array.size() - leading_);
  }
  Optimizer& optimizer() { return *optimizer_; }
  /// Number of tensors of the model; and the tensor of each block of this server, in the optimizer's order.
  std::size_t tensors() const { return tensors_; }
  const std::vector<std::size_t>& tensors_of_blocks() const { return tensors_of_blocks_; }
  Device& device() const { return device_; }

  /// The array that a worker asks for: 0: the values; 1, 2, …: the optimizer's slots.
  std::span<const float> array(std::int64_t number);
  /// Copies this server's part of `values`, which begin at `begin` of the whole array.
  void load(std::int64_t number, std::size_t begin, std::span<const float> values);

 private:
  std::span<float> host_array(std::int64_t number);

  Device& device_;
  mpi::ServerShare share_;
  std::size_t leading_;
  std::size_t tensors_;
  std::vector<std::size_t> tensors_of_blocks_;
  Storage values_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<OptimizerSlot> slots_;
};

}  // namespace flotilla
