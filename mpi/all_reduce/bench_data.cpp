// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/bench_data.hpp"

#include <algorithm>
#include <vector>

namespace flotilla::mpi {

namespace {

/// Values are below this: their sum does not exceed what the wire counts to without gaps.
std::size_t value_limit(Wire wire, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  switch (wire) {
    case Wire::float16: return 2048 / n + 1;
    case Wire::bfloat16: return 256 / n + 1;
    case Wire::float32: break;
  }
  return 1021;
}

/// What `rank` holds, which repeats after `limit` values.
std::vector<float> pattern(std::size_t limit, int rank) {
  std::vector<float> values(limit);
  for (std::size_t i = 0; i < limit; ++i)
    values[i] = static_cast<float>((i + 7 * static_cast<std::size_t>(rank)) % limit);
  return values;
}

}  // namespace

void fill_for_exact_sum(std::span<float> data, Wire wire, int rank, int ranks) {
  const std::vector<float> values = pattern(value_limit(wire, ranks), rank);
  for (std::size_t at = 0; at < data.size(); at += values.size()) {
    const std::size_t count = std::min(values.size(), data.size() - at);
    std::copy_n(values.begin(), count, data.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

bool is_exact_sum(std::span<const float> result, Wire wire, int ranks) {
  const std::size_t limit = value_limit(wire, ranks);
  std::vector<float> sums(limit);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = pattern(limit, rank);
    for (std::size_t i = 0; i < limit; ++i) sums[i] += values[i];
  }
  for (std::size_t at = 0; at < result.size(); at += limit) {
    const auto part = result.subspan(at, std::min(limit, result.size() - at));
    if (!std::equal(part.begin(), part.end(), sums.begin())) return false;
  }
  return true;
}

}  // namespace flotilla::mpi
