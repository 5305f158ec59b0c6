// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/arena.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

/// Floats in the header of a worker's gradient array: the loss sums of the step (LossSum has their indices)
/// and the votes to stop. The step's statistics (Arenas::step_statistics) follow, then the gradients. Header
/// and statistics are part of the last bucket, so that they need no collective of their own.
inline constexpr std::int64_t header_floats = ArenaLayout::alignment;
inline constexpr auto header_size = static_cast<std::size_t>(header_floats);  ///< For spans
/// Index of a worker's vote to stop in the header.
inline constexpr std::size_t header_stop = 8;

/// Index of the OverflowGuard's report in the header after the sum: report_floats.
inline constexpr std::size_t header_report = 10;

/// Index of the flag in the header by which servers of server.mode = "sync" skip gradients that are not
/// finite.
inline constexpr std::size_t header_skip = 9;

/// Index, in the header that server 0 sends back, of the staleness of the workers' last pushes, their mean; 0
/// with server.mode = "sync".
inline constexpr std::size_t header_staleness = 15;

/// Floats before the gradients in the gradient array of this model.
inline std::size_t leading_floats(const Model& model) {
  return header_size + model.statistics.size();
}
/// Header and statistics of an array that is laid out as the gradient array.
inline DeviceSpan<float> leading_part(DeviceSpan<float> array, const Model& model) {
  return array.subspan(0, leading_floats(model));
}
/// The step's statistics.
inline DeviceSpan<float> statistics_part(DeviceSpan<float> array, const Model& model) {
  return array.subspan(header_floats, model.statistics.size());
}
/// The gradients, which the optimizer reads.
inline DeviceSpan<float> parameter_part(DeviceSpan<float> array, const Model& model) {
  return array.subspan(leading_floats(model), array.size() - leading_floats(model));
}

/// A range of the gradient array (floats) that is summed over the workers at once.
struct Bucket {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int gradients = 0;  ///< Tensors in it
};

/// Cuts the gradient array, `leading` floats and the gradients, into buckets at the borders of tensors; [0]
/// is the first that becomes ready in backward, at the array's end. Walked in forward order, tensors join a
/// bucket until it holds last_bucket_bytes (the first layers: sent last, with no computation left to overlap)
/// or bucket_bytes (the others), tested after adding (docs/fleet.md, "Synchronous training").
std::vector<Bucket> cut_buckets(const ArenaLayout& layout, std::int64_t leading, std::int64_t bucket_bytes,
                                std::int64_t last_bucket_bytes);

/// The size of a bucket of so many MiB, at least one byte: a bucket ends with the tensor that fills it.
std::int64_t bucket_bytes(double mebibytes);

/// The bucket's part of the gradient array.
DeviceSpan<float> span_of(DeviceSpan<float> gradients, const Bucket& bucket);

/// "161 gradients in 5 buckets: 5.3, 32.4, 32.2, 31.3, 1.0 MiB".
std::string describe(const std::vector<Bucket>& buckets);

}  // namespace flotilla
