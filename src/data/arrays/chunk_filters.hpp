// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

/// Filters of HDF5 that are undone here, without HDF5 and its lock.
enum class ChunkFilter { deflate, shuffle, fletcher32 };

/// A chunk is not what its filters made.
struct DamagedChunk : UserError {
  using UserError::UserError;
};

/// The filters that chunks went through when they were written, in that order.
struct FilterPipeline {
  std::vector<ChunkFilter> filters{};
  std::size_t number_bytes = 1;  ///< What shuffle takes apart

  std::string text() const;  ///< "shuffle, deflate"
};

/// Undoes the filters of a chunk. @param stored as it lies in the file  @param skipped bit k: filter k was
/// left out of this chunk  @throws DamagedChunk with a reason; it names no file
void decode_chunk(const FilterPipeline& pipeline, std::span<const std::byte> stored, std::uint32_t skipped,
                  std::span<std::byte> to);

}  // namespace flotilla
