// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/file_index.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/error.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

namespace {

/// With its length, so that no two different lists of texts give the same bytes.
std::string counted(const std::string& text) {
  return cat(text.size(), ':', text, '\n');
}

std::string counted(const std::map<std::string, std::string>& texts) {
  std::string all = cat(texts.size(), '\n');
  for (const auto& [key, value] : texts) all += counted(key) + counted(value);
  return all;
}

std::string counted(std::span<const CheckpointPart> parts) {
  std::string all = cat(parts.size(), '\n');
  for (const CheckpointPart& part : parts)
    all += cat(counted(part.name), part.bytes, ' ', part.checksum, '\n');
  return all;
}

}  // namespace

std::int64_t StoredTensor::bytes() const {
  return shape.size() *
         static_cast<std::int64_t>(element == Element::unsigned64 ? sizeof(std::uint64_t) : sizeof(float));
}

bool is_of_rows(const std::string& path) {
  return path.starts_with("rows/");
}

std::uint64_t index_checksum(const CheckpointState& state, std::span<const StoredTensor> tensors) {
  std::string text =
      cat(state.schema, '\n', state.step, '\n', state.position.epoch, '\n', state.position.offset, '\n',
          state.samples, '\n', state.seed, '\n', state.optimizer_step, '\n', state.inference_only, '\n');
  text += counted(state.deck) + counted(state.versions) + counted(state.choices);
  if (state.schema >= 2) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();  // There are many; files know one
    text += cat(state.numbers.size(), '\n');
    for (const auto& [name, number] : state.numbers)
      text += cat(counted(name), std::bit_cast<std::uint64_t>(std::isnan(number) ? nan : number), '\n');
    text += counted(state.parts);
    text += cat(state.training_samples, '\n');
  }
  if (state.schema >= 3) text += counted(state.server_parts);
  std::map<std::string, std::string> lines;  // By path: the reader lists group by group
  for (const StoredTensor& tensor : tensors)
    lines[tensor.path] =
        cat(tensor.shape.text(), ' ', tensor.checksum ? hexadecimal(*tensor.checksum) : std::string("none"),
            tensor.element == Element::unsigned64 ? " u64" : "");
  text += counted(lines);
  return checksum_of(std::as_bytes(std::span(text)));
}

std::string index_problem(const FileIndex& index) {
  if (!index.problems.empty()) return index.problems.front();
  for (const StoredTensor& tensor : index.tensors)
    if (!tensor.problem.empty()) return cat("its dataset /", tensor.path, " ", tensor.problem);
  if (!index.has_state) return {};
  if (!index.checksum) return "it has no checksum attribute xxh3";
  if (*index.checksum != index_checksum(index.state, index.tensors))
    return "its attributes or its list of tensors are not those that were written (the checksum differs)";
  return {};
}

}  // namespace flotilla
