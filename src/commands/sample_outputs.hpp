// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla {

/// The last layer's outputs of every sample of this rank's shard, for --vectors.
class SampleOutputs {
 public:
  void add(std::span<const float> rows) { values_.insert(values_.end(), rows.begin(), rows.end()); }

  /// Collective. The dataset /vectors (samples × outputs) in the order of the data, whatever the rank count.
  void write(const std::string& path, std::int64_t outputs, std::int64_t samples,
             const mpi::Communicator& world) const;

 private:
  std::vector<float> values_;
};

}  // namespace flotilla
