// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/communicator_exchange.hpp"

#include "kernels/trace.hpp"

namespace flotilla {

void CommunicatorExchange::all_gather(std::span<const double> mine, std::span<double> all) {
  const trace::Span span("synchronised batch norm");
  if (watchdog_ != nullptr)
    watchdog_->beat("synchronised batch norm among the workers", watchdog_->activity().step);
  const std::int64_t begin_ns = trace::now_ns();
  workers_.all_gather(mine, all);
  waited_ns_ += trace::now_ns() - begin_ns;
}

}  // namespace flotilla
