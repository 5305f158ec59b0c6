// SPDX-License-Identifier: Apache-2.0
#include "src/data/identity.hpp"

#include <algorithm>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

std::string identity_of(const Identifiable& data) {
  const std::int64_t count = std::min(data.size(), identified_samples);
  std::vector<std::int64_t> samples;
  const std::int64_t gaps = std::max<std::int64_t>(count - 1, 1);
  for (std::int64_t k = 0; k < count; ++k) samples.push_back(k * (data.size() - 1) / gaps);
  Checksum sum;
  data.identify(samples, sum);
  return cat(data.size(), " samples, xxh3 ", hexadecimal(sum.value()));
}

}  // namespace flotilla
