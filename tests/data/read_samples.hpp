// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/dataset.hpp"

namespace flotilla::test {

/// A source of data that is named by its path.
inline DataSourceConfig source_at(const std::string& path) {
  DataSourceConfig source;
  source.given = true;
  source.path = path;
  return source;
}

/// A source of digits in two IDX files.
inline DataSourceConfig idx_source(const std::string& images, const std::string& labels) {
  return {.given = true, .images = images, .labels = labels};
}

/// A sample as a data set reads it into memory that held other values before.
struct LabelledSample {
  std::int32_t label = -1;
  std::vector<float> values;
};
inline LabelledSample sample_of(const Dataset& data, std::int64_t i, std::uint64_t variation = 0) {
  LabelledSample sample;
  sample.values.assign(static_cast<std::size_t>(data.sample_shape().size()), -99.0F);
  sample.label = data.read(i, variation, sample.values);
  return sample;
}
inline std::vector<float> values_of(const Dataset& data, std::int64_t i, std::uint64_t variation = 0) {
  return sample_of(data, i, variation).values;
}
inline std::vector<std::uint8_t> bytes_of(const Dataset& data, std::int64_t i, std::uint64_t variation = 0) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(data.sample_shape().size()), 99);
  data.read_bytes(i, variation, bytes);
  return bytes;
}
inline std::vector<float> targets_of(const Dataset& data, std::int64_t i) {
  std::vector<float> targets(static_cast<std::size_t>(data.target_width()), -99.0F);
  data.read_targets(i, targets);
  return targets;
}

}  // namespace flotilla::test
