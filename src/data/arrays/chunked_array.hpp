// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/chunk_cache.hpp"
#include "src/data/arrays/chunk_filters.hpp"
#include "src/data/arrays/unchanged_file.hpp"

namespace flotilla {

/// A chunk in a file.
struct StoredChunk {
  std::int64_t begin = -1;    ///< −1: it was never written
  std::uint32_t bytes = 0;    ///< With its filters applied
  std::uint32_t skipped = 0;  ///< Bit k: filter k was left out
};

/// Reads chunks of which only the library of the file's format knows the places.
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  /// Reads the chunk that holds the number at `place`, with its filters applied, and says which were left
  /// out, as StoredChunk::skipped. @returns false if it was never written. Safe from several threads at once.
  virtual bool read(std::span<const std::int64_t> place, std::vector<std::byte>& stored,
                    std::uint32_t& skipped) const = 0;
};

/// An array that is cut into chunks of one shape along all axes; those at the end of an axis reach beyond it.
struct ChunkTable {
  std::vector<std::int64_t> extents{};  ///< Of a chunk
  std::vector<StoredChunk> chunks{};    ///< The last axis varies fastest; empty: `reader` reads them
  std::shared_ptr<const ChunkReader> reader{};
  FilterPipeline pipeline{};
  std::vector<std::byte> fill{};  ///< The number that chunks hold that were never written

  /// Chunks along an axis of an array.
  std::int64_t along(std::size_t axis, const ArrayForm& form) const {
    return (form.extents[axis] + extents[axis] - 1) / extents[axis];
  }
};

/// Chunks are read whole and decoded into the cache; rows of chunks without filters that lie together are
/// read from the file instead. @throws UserError if a chunk lies beyond the end of the file, or is larger
/// than the cache
std::unique_ptr<Array> make_chunked_array(ArrayForm form, std::shared_ptr<const UnchangedFile> file,
                                          ChunkTable table, std::shared_ptr<ChunkCache> cache);

}  // namespace flotilla
