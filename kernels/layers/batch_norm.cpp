// SPDX-License-Identifier: Apache-2.0
#include "kernels/layers/batch_norm.hpp"

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

}  // namespace flotilla
