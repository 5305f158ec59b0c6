// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/arrays/array.hpp"

namespace flotilla {

/// Keeps the chunks that were decoded last, up to a number of bytes, for all threads of a rank. Two threads
/// that need the same chunk decode it once.
class ChunkCache {
 public:
  using Bytes = std::shared_ptr<const std::byte[]>;
  using Decode = std::function<void(std::span<std::byte>)>;

  explicit ChunkCache(std::int64_t max_bytes) : max_bytes_(max_bytes) {}
  std::int64_t max_bytes() const { return max_bytes_; }
  /// A number for the chunks of one more array.
  std::uint64_t new_array();

  /// Chunk `chunk` of array `array`, of `bytes` bytes, as `decode` writes it where it is not kept. Chunks in
  /// use stay until they are given back, beyond the bound if they must.
  /// @throws what decode throws; the chunk is then not kept
  Bytes get(std::uint64_t array, std::uint64_t chunk, std::size_t bytes, const Decode& decode);

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::size_t size = 0;
    Bytes bytes;  ///< Null while a thread decodes it
  };
  using Entries = std::list<Entry>;

  void make_room();

  std::int64_t max_bytes_;
  std::mutex mutex_;  ///< For all that follows
  std::condition_variable decoded_;
  Entries entries_;  ///< The one that was used last comes first
  std::unordered_map<std::uint64_t, Entries::iterator> by_key_;
  std::int64_t held_bytes_ = 0;
  std::uint64_t arrays_ = 0;
};

/// Filters of HDF5 that are undone here, without HDF5 and its lock.
enum class ChunkFilter { deflate, shuffle, fletcher32 };

/// A chunk is not what its filters made.
struct DamagedChunk : UserError {
  using UserError::UserError;
};

/// The filters that chunks went through when they were written, in that order.
struct FilterPipeline {
  std::vector<ChunkFilter> filters{};
  std::size_t number_bytes = 1;  ///< Bytes of a number, which the filter shuffle separates

  std::string text() const;  ///< "shuffle, deflate"
};

/// Undoes the filters of a chunk. @param stored as it lies in the file  @param skipped bit k: filter k was
/// left out of this chunk  @throws DamagedChunk with a reason; it names no file
void decode_chunk(const FilterPipeline& pipeline, std::span<const std::byte> stored, std::uint32_t skipped,
                  std::span<std::byte> to);

/// A chunk in a file.
struct StoredChunk {
  std::int64_t begin = -1;    ///< −1: it was never written
  std::uint32_t bytes = 0;    ///< Size with its filters applied
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
  std::vector<std::int64_t> extents{};  ///< Extents of a chunk
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
