// SPDX-License-Identifier: Apache-2.0
#include "kernels/layers/batch_norm.hpp"

#include "kernels/error.hpp"

namespace flotilla {

void BatchNorm::forward_both(const NormInput&, const NormInput&, Tensor&) {
  throw InternalError("this norm takes a residual that is normalised already");
}

RunningRates running_rates(float momentum, std::int64_t count) {
  require(count > 1, "the unbiased variance needs two values per channel, got ", count);
  const float rate = 1.0F - momentum;
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  return {momentum, rate, static_cast<float>(double{rate} * unbiased)};
}

void update_running_statistics(FlatMath& flat, GivenStatistics batch, std::int64_t count,
                               const RunningStatistics& running) {
  if (running.values.first.empty()) return;
  const RunningRates rates = running_rates(running.momentum, count);
  flat.scale(running.values.first, rates.momentum);
  flat.axpy(rates.mean, batch.first, running.values.first);
  flat.scale(running.values.second, rates.momentum);
  flat.axpy(rates.variance, batch.second, running.values.second);
}

}  // namespace flotilla
