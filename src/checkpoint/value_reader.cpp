// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/value_reader.hpp"

#include <algorithm>
#include <bit>

#include "kernels/error.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

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
