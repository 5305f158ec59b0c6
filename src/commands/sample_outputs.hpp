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

/// Counts for --per-class: the samples of each class, and how many of them had their highest output there (of
/// equal outputs the lower class).
class ClassTable {
 public:
  explicit ClassTable(std::int64_t classes)
      : classes_(static_cast<std::size_t>(classes)), counts_(2 * classes_) {}
  /// labels.size() rows of `classes` outputs.
  void add(std::span<const float> rows, std::span<const std::int32_t> labels);

  /// Collective. The table over all ranks, a line for each class.
  std::vector<std::string> lines(const mpi::Communicator& world) const;

 private:
  std::size_t classes_;
  std::vector<std::int64_t> counts_;  ///< Of each class: samples, hits
};

}  // namespace flotilla
