// SPDX-License-Identifier: Apache-2.0
#include "kernels/image_operations.hpp"

#include "kernels/error.hpp"

namespace flotilla {

void update_running_statistics(FlatMath& flat, GivenStatistics batch, std::int64_t count, float momentum,
                               Statistics running) {
  require(count > 1, "the unbiased variance needs two values per channel, got ", count);
  const float rate = 1.0F - momentum;
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  flat.scale(running.first, momentum);
  flat.axpy(rate, batch.first, running.first);
  flat.scale(running.second, momentum);
  flat.axpy(static_cast<float>(double{rate} * unbiased), batch.second, running.second);
}

std::int64_t windows(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return (extent + 2 * padding - kernel) / stride + 1;
}

Shape output_shape(const Conv2dSpec& s) {
  return {s.input[0], s.out_channels, windows(s.input[2], s.kernel, s.stride, s.padding),
          windows(s.input[3], s.kernel, s.stride, s.padding)};
}

std::int64_t flops(const Conv2dSpec& s) {
  return 2 * output_shape(s).size() * s.input[1] / s.groups * s.kernel * s.kernel;
}

Shape output_shape(const Pool2dSpec& s) {
  if (s.kind == Pooling::global_average) return {s.input[0], s.input[1], 1, 1};
  return {s.input[0], s.input[1], windows(s.input[2], s.kernel, s.stride, s.padding),
          windows(s.input[3], s.kernel, s.stride, s.padding)};
}

}  // namespace flotilla
