// SPDX-License-Identifier: Apache-2.0
// For processors other than x86-64, where no instruction set is checked.
#include <atomic>
#include <chrono>

#include "kernels/build_info.hpp"
#include "kernels/processor/processor.hpp"
#include "kernels/processor/required_features.hpp"

namespace flotilla {

std::string built_for() {
  return required_feature::architecture;
}

bool flush_denormals() {
  return false;
}

long pauses_in(double microseconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int rounds = 200;
  double least_us = 1e9;
  for (int attempt = 0; attempt < 3; ++attempt) {  // the first may have been interrupted
    const Clock::time_point begin = Clock::now();
    for (int round = 0; round < rounds; ++round) std::atomic_signal_fence(std::memory_order_seq_cst);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    if (took.count() < least_us) least_us = took.count();
  }
  const double pauses = microseconds * rounds / (least_us > 1e-3 ? least_us : 1e-3);
  return pauses < 1.0 ? 1 : static_cast<long>(pauses);
}

void check_processor() {}

}  // namespace flotilla
