// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/file_index.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/error.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

namespace {

/// The text preceded by its length, so that different lists of texts never give the same bytes.
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

namespace {

static_assert(std::endian::native == std::endian::little,
              "values are copied between file and memory as they are");

constexpr std::size_t piece_values = std::size_t{1} << 18;

}  // namespace

ValueReader::ValueReader(const FileIndex& index) : index_(index), file_(File::open(index.path)) {}

void ValueReader::pieces(const StoredTensor& tensor,
                         const std::function<void(std::span<const float>)>& take) {
  const auto size = static_cast<std::size_t>(tensor.shape.size());
  if (!tensor.position) {
    scratch_.resize(std::max(scratch_.size(), size));
    hdf5::read_converted(index_.path, tensor, std::span(scratch_).first(size));
    take(std::span(scratch_).first(size));
    return;
  }
  scratch_.resize(std::max(scratch_.size(), std::min(size, piece_values)));
  for (std::size_t done = 0; done < size; done += piece_values) {
    const std::span<float> piece = std::span(scratch_).first(std::min(piece_values, size - done));
    file_.read(*tensor.position + static_cast<std::int64_t>(done * sizeof(float)),
               std::as_writable_bytes(piece));
    take(piece);
  }
}

std::uint64_t ValueReader::read(const StoredTensor& tensor, std::span<float> to) {
  require(static_cast<std::int64_t>(to.size()) == tensor.shape.size(), "wrong size for ", tensor.path);
  if (!tensor.position) {
    hdf5::read_converted(index_.path, tensor, to);
    return checksum_of(std::as_bytes(to));
  }
  Checksum sum;
  for (std::size_t done = 0; done < to.size(); done += piece_values) {
    const auto piece = std::as_writable_bytes(to.subspan(done, std::min(piece_values, to.size() - done)));
    file_.read(*tensor.position + static_cast<std::int64_t>(done * sizeof(float)), piece);
    sum.add(piece);
  }
  return sum.value();
}

std::uint64_t ValueReader::checksum(const StoredTensor& tensor, const std::function<void()>& moved) {
  Checksum sum;
  if (!tensor.position) {
    pieces(tensor, [&](std::span<const float> values) { sum.add(std::as_bytes(values)); });
    moved();
    return sum.value();
  }
  constexpr std::int64_t piece_bytes = piece_values * sizeof(float);
  bytes_.resize(static_cast<std::size_t>(std::min(tensor.bytes(), piece_bytes)));
  for (std::int64_t done = 0; done < tensor.bytes(); done += piece_bytes) {
    const auto size = static_cast<std::size_t>(std::min(piece_bytes, tensor.bytes() - done));
    const std::span<std::byte> piece = std::span(bytes_).first(size);
    file_.read(*tensor.position + done, piece);
    sum.add(piece);
    moved();
  }
  return sum.value();
}

std::string first_damage(const FileIndex& index, const std::function<void()>& moved) {
  if (std::string problem = index_problem(index); !problem.empty()) return problem;
  try {
    ValueReader reader(index);
    for (const StoredTensor& tensor : index.tensors)
      if (tensor.checksum && reader.checksum(tensor, moved) != *tensor.checksum)
        return cat("the values of /", tensor.path, " are not those that were written (the checksum differs)");
  } catch (const UnreadableFile&) {
    throw;
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace flotilla
