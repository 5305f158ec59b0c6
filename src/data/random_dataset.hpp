// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "src/data/dataset.hpp"

namespace flotilla {

struct RandomDatasetSpec {
  std::int64_t samples = 0;
  Shape shape;  ///< of one sample
  std::int64_t classes = 0;
  std::uint64_t seed = 0;
};

/// Random samples for tests and benchmarks: values uniform in [0, 1) and labels uniform in
/// 0 … classes − 1, pure functions of (seed, sample). Needs no memory.
std::unique_ptr<Dataset> make_random_dataset(const RandomDatasetSpec& spec);

}  // namespace flotilla
