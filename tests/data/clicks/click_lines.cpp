// SPDX-License-Identifier: Apache-2.0
#include "tests/data/clicks/click_lines.hpp"

#include "kernels/error.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/messages.hpp"

namespace flotilla::test {

namespace {

template <class T>
std::vector<T> copy(std::span<const T> from) {
  return {from.begin(), from.end()};
}

std::unique_ptr<Dataset> open_clicks(const std::string& kind, const std::string& path) {
  DataConfig data;
  data.kind = choice<DataKind>(kind);
  data.hash_buckets = 0;
  return open_dataset(data, source_at(path), 2, 1);
}

}  // namespace

std::string criteo_line(std::int64_t i) {
  std::string line = cat(i % 2);
  for (std::int64_t k = 0; k < 13; ++k) line += k == 1 ? "\t" : cat('\t', i + k);
  for (std::int64_t slot = 0; slot < 26; ++slot) line += slot == 2 ? "\t" : cat("\ts", slot, "v", i);
  return line;
}

std::string criteo_text(std::int64_t first, std::int64_t end, const std::string& line_end) {
  std::string text;
  for (std::int64_t i = first; i < end; ++i) text += criteo_line(i) + line_end;
  return text;
}

std::string libsvm_line(std::int64_t i) {
  std::string line = i % 3 == 0 ? "+1" : "-1";
  for (std::int64_t k = 0; k < i % 5; ++k)
    line += cat(' ', 10 * k + i % 7, ':', 0.5 * static_cast<double>(k + 1));
  return line;
}

std::string libsvm_text(std::int64_t first, std::int64_t end) {
  std::string text;
  for (std::int64_t i = first; i < end; ++i) text += libsvm_line(i) + "\n";
  return text;
}

Sample read_sample(const Dataset& data, BagReader& reader, std::int64_t i) {
  Sample sample;
  sample.dense.resize(static_cast<std::size_t>(data.sample_shape().size()));
  BagBuffer buffer(1, data.slots(), data.weighted());
  sample.label = reader.read(i, sample.dense, buffer);
  const Bags bags = buffer.bags();
  sample.ids = copy(bags.ids);
  sample.values = copy(bags.values);
  sample.ends = copy(bags.ends);
  return sample;
}

std::vector<Sample> read_all(const Dataset& data) {
  std::vector<Sample> samples;
  const auto reader = data.bag_reader();
  for (std::int64_t i = 0; i < data.size(); ++i) samples.push_back(read_sample(data, *reader, i));
  return samples;
}

std::unique_ptr<Dataset> open_criteo(const std::string& path) {
  return open_clicks("criteo", path);
}

std::unique_ptr<Dataset> open_libsvm(const std::string& path) {
  return open_clicks("libsvm", path);
}

std::string complaint_of(const std::string& kind, const std::string& path) {
  return test::error_of([&] { read_all(*open_clicks(kind, path)); });
}

}  // namespace flotilla::test
