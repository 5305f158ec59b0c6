// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device.hpp"

namespace flotilla::test {

/// Parameters, gradients and two slots on one device; the second slot is never negative.
struct FlatState {
  std::unique_ptr<Device> device;
  std::vector<FlatRange> ranges;
  Storage p, g, a, b;

  FlatState(std::unique_ptr<Device> on, std::vector<FlatRange> of, std::int64_t size);
  FlatMath& flat() { return device->flat(); }
  FlatUpdates& updates() { return device->updates(); }
  UpdateInput input(Decay decay);
  /// Sets to zero what no range covers.
  void clear_padding();
};

/// One step of an optimizer.
struct FlatStep {
  const char* name;
  std::function<void(FlatState&, const UpdateInput&)> step;
};
const std::vector<FlatStep>& flat_steps();

/// Compares both after two steps of this kind: values stay below 8 (the LAMB direction below 30), with a few
/// roundings each. The oracle rounds moments and parameters to float as well.
void expect_alike_after_two(const FlatStep& kind, Decay decay, FlatState& state, FlatState& oracle);

}  // namespace flotilla::test
