// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/commands/array_statistics.hpp"
#include "src/data/arrays/array_dataset.hpp"
#include "src/data/arrays/chunked_array.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "src/data/shards/shard_images.hpp"
#include "src/files/checksum.hpp"
#include "tests/fuzz/fuzz_targets.hpp"

// What is made of files of arrays and of shards once they are opened.

namespace flotilla::fuzz {

namespace {

constexpr std::int64_t max_bytes = 1 << 20;
constexpr std::int64_t max_rows = 1 << 16;  ///< 9 kB may claim half a million, of which each is read alone

/// Runs `use` with each pair of arrays of a file that are small enough. @param input a file of arrays,
/// recognised by its first bytes
template <class Use>
void for_each_pair(Input input, const Use& use) {
  const InputFile file(input);
  const auto cache = std::make_shared<ChunkCache>(max_bytes);
  const auto refusable = [](const auto& part) {
    try {
      part();
      note_read();
    } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
    }
  };
  refusable([&] {
    const KnownArrays known = open_known_arrays(file.path(), cache);
    if (known.file == nullptr) return;
    const auto open = [&](const std::string& name) {
      auto array = known.file->open(name);
      const ArrayForm& form = array->form();
      if (form.rows() > max_rows || form.rows() * form.row_bytes() > max_bytes)
        throw UserError("it is large");
      return array;
    };
    for (const std::string& inputs : known.file->names())
      for (const std::string& targets : known.file->names())
        refusable([&] { use(ArrayPair{.inputs = open(inputs), .targets = open(targets)}); });
  });
}

/// Reads all samples of a data set that each pair of arrays makes, as classes and as numbers.
void array_dataset(Input input) {
  for (const std::int64_t width : {0, 1, 3}) {
    for_each_pair(input, [&](ArrayPair pair) {
      std::vector<ArrayPair> parts;
      parts.push_back(std::move(pair));
      const auto data = make_array_dataset(
          std::move(parts),
          {.classes = 10, .targets = width, .binary = width == 1, .channels_last = width == 3});
      MistakeList mistakes;
      data->check_targets(0, data->size(), mistakes);
      std::vector<float> values(static_cast<std::size_t>(data->sample_shape().size()));
      std::vector<float> targets(static_cast<std::size_t>(width));
      for (std::int64_t i = 0; i < data->size(); ++i) {
        data->read(i, 1, values);
        if (width > 0) data->read_targets(i, targets);
      }
    });
  }
}

void labels(Input input) {
  for_each_pair(input, [](const ArrayPair& pair) {
    std::vector<std::int32_t> found;
    if (pair.targets->form().row_values() == 1 && pair.targets->form().type.is_integer())
      read_labels(*pair.targets, {.classes = 10}, found);
  });
}

/// Each array is taken once: where it is its own targets.
void statistics(Input input) {
  for_each_pair(input, [](const ArrayPair& pair) {
    if (pair.inputs->form().name != pair.targets->form().name) return;
    for (const bool channels_last : {false, true})
      statistics_of(*pair.inputs, channels_last, [](std::int64_t) {});
  });
}

/// All images of a shard: by its headers, by an index (what stands before the first byte 0), and by that with
/// the checksum that it should have.
void shard_images(Input input) {
  const auto [index, tar] = split(input);
  const InputFile shard(tar);
  const std::string text = text_of(index);
  for (const std::string& each : {std::string(), text, text + hexadecimal(checksum_of(index)) + "\n"}) {
    try {
      ShardOptions options{.classes = 10};
      if (!each.empty()) options.indexes[shard.path()] = each;
      const auto images = open_shards("shard", {shard.path()}, options);
      std::vector<std::byte> image;
      for (std::int64_t i = 0; i < images->size(); ++i) {
        images->read(i, image);
        images->place(i);
      }
      note_read();
    } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
    }
  }
}

}  // namespace

std::vector<Target> array_targets() {
  return {{"array_dataset", array_dataset},
          {"labels", labels},
          {"statistics", statistics},
          {"shard_images", shard_images}};
}

}  // namespace flotilla::fuzz
