// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/samples.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace flotilla {

void add_tensor(Snapshot& snapshot, const std::string& path, const Shape& shape, float value) {
  snapshot.tensors.push_back({path, shape, static_cast<std::int64_t>(snapshot.values.size())});
  for (std::int64_t i = 0; i < shape.size(); ++i) snapshot.values.push_back(value + static_cast<float>(i));
}

Snapshot sample_snapshot(std::int64_t step) {
  Snapshot snapshot;
  CheckpointState& state = snapshot.state;
  state.step = step;
  state.position = {.epoch = 3, .offset = 512};
  state.samples = 64 * step;
  state.seed = -7;
  state.optimizer_step = step - 1;
  state.deck = "# A deck: \"quotes\", ü\n[train]\nepochs = 3\n";
  state.versions = {{"flotilla", "0.1.0"}, {"oneDNN", "2.6.3"}};
  state.choices = {{"strategy.all_reduce", "shared-memory"}};
  state.numbers = {{"period", 8.0}, {"first loss", 0.1}};
  state.training_samples = 10000;
  const auto value = static_cast<float>(step);
  add_tensor(snapshot, "parameters/layers.0.weight", {3, 5}, value);
  add_tensor(snapshot, "parameters/layers.0.bias", {3}, value + 0.25F);
  add_tensor(snapshot, "parameters/conv.weight", {2, 1, 3, 3}, -value);
  add_tensor(snapshot, "statistics/bn.mean", {2}, 0.5F);
  add_tensor(snapshot, "optimizer/first/layers.0.weight", {3, 5}, 100.0F);
  add_tensor(snapshot, "optimizer/second/layers.0.weight", {3, 5}, 200.0F);
  add_tensor(snapshot, "optimizer/scale/loss", {}, 65536.0F);
  add_tensor(snapshot, "strategy/outer_momentum/layers.0.weight", {3, 5}, 300.0F);
  return snapshot;
}

Save save_of(const Snapshot& snapshot) {
  return {.state = snapshot.state, .shared = std::make_shared<SnapshotSource>(snapshot)};
}

std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char letter) { return std::byte(letter); });
  return bytes;
}

void put_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void put_byte(const std::string& path, std::size_t position, std::byte value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(position)).put(static_cast<char>(value));
}

namespace {

bool same_part(const CheckpointPart& a, const CheckpointPart& b) {
  return a.name == b.name && a.bytes == b.bytes && a.checksum == b.checksum;
}

}  // namespace

bool equal(const Snapshot& a, const Snapshot& b) {
  const CheckpointState& x = a.state;
  const CheckpointState& y = b.state;
  const bool states = x.schema == y.schema && x.step == y.step && x.position == y.position &&
                      x.samples == y.samples && x.seed == y.seed && x.optimizer_step == y.optimizer_step &&
                      x.deck == y.deck && x.versions == y.versions && x.choices == y.choices &&
                      x.inference_only == y.inference_only && x.numbers == y.numbers &&
                      std::ranges::equal(x.parts, y.parts, same_part) &&
                      std::ranges::equal(x.server_parts, y.server_parts, same_part) &&
                      x.training_samples == y.training_samples;
  const auto same = [&](const CheckpointTensor& left, const CheckpointTensor& right) {
    const auto v = a.of(left);
    const auto w = b.of(right);
    return left.path == right.path && left.shape == right.shape &&
           std::memcmp(v.data(), w.data(), v.size_bytes()) == 0;
  };
  return states && std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), same);
}

}  // namespace flotilla
