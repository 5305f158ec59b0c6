// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/data/dataset.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/within.hpp"

namespace flotilla::test {

/// What a deck gives where it names the kind alone.
inline DataConfig config(DataKind kind) {
  DataConfig data;
  data.kind = kind;
  return data;
}

inline std::unique_ptr<Dataset> open(const DataConfig& data, const std::string& path,
                                     std::int64_t classes = 10, std::int64_t targets = 0) {
  return open_dataset(data, source_at(path), classes, 1, {.training = true, .targets = targets});
}

/// Labels 0 … 9, 0 … 9, … of uint8.
inline StoredArray labels_of(std::int64_t count) {
  return {"labels", {}, {count}, [&] {
            Bytes labels;
            for (std::int64_t i = 0; i < count; ++i) labels.push_back(static_cast<std::uint8_t>(i % 10));
            return labels;
          }()};
}

/// Every sample holds what counted() wrote.
inline void expect_counted(const Dataset& data, NumberType type, std::int64_t samples) {
  ASSERT_EQ(data.size(), samples);
  const std::int64_t size = data.sample_shape().size();
  for (std::int64_t i = samples - 1; i >= 0; --i) {
    const LabelledSample sample = sample_of(data, i);
    ASSERT_EQ(sample.label, i % 10);
    for (std::int64_t k = 0; k < size; ++k) {
      const double value = counted_value(type, i * size + k);
      ASSERT_TRUE(test::within_float_roundings(sample.values[static_cast<std::size_t>(k)],
                                               static_cast<float>(type.is_byte() ? value / 255.0 : value), 4))
          << type.text() << ", sample " << i << ", value " << k;
    }
  }
}

/// Whether that is number k of counted() as float32.
inline testing::AssertionResult is_counted(float value, std::int64_t k, int start = 0) {
  const auto expected = static_cast<float>(counted_value({NumberType::Kind::f32}, k, start));
  return within_float_roundings(value, expected, 4);
}

}  // namespace flotilla::test
