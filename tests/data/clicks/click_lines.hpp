// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/bag_buffer.hpp"
#include "src/data/dataset.hpp"
#include "tests/data/idx_files.hpp"

namespace flotilla::test {

inline Bytes bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
inline void save_text(const std::string& path, const std::string& text) {
  save(path, bytes_of(text));
}
inline void save_gzip(const std::string& path, const std::string& text) {
  save(path, gzip(bytes_of(text)));
}

/// Line i of a Criteo file without its end: label i mod 2, numbers i + column, categories "s<slot>v<i>". The
/// second number and the third category are missing.
std::string criteo_line(std::int64_t i);
/// Lines first … end − 1, each with `line_end`.
std::string criteo_text(std::int64_t first, std::int64_t end, const std::string& line_end = "\n");
/// A LIBSVM line: label −1 or +1, then i mod 5 pairs.
std::string libsvm_line(std::int64_t i);
std::string libsvm_text(std::int64_t first, std::int64_t end);

/// A sample as it was read.
struct Sample {
  std::int32_t label = -1;
  std::vector<float> dense;
  std::vector<std::uint64_t> ids;
  std::vector<float> values;
  std::vector<std::int32_t> ends;
  friend bool operator==(const Sample&, const Sample&) = default;
};

Sample read_sample(const Dataset& data, BagReader& reader, std::int64_t i);
/// All samples in order.
std::vector<Sample> read_all(const Dataset& data);

std::unique_ptr<Dataset> open_criteo(const std::string& path);
std::unique_ptr<Dataset> open_libsvm(const std::string& path);

/// What opening and then reading all samples complains about.
std::string complaint_of(const std::string& kind, const std::string& path);

}  // namespace flotilla::test
