// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/chunked_array.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "kernels/error.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

constexpr int array_shift = 40;  // 2^40 chunks of an array

}  // namespace

std::uint64_t ChunkCache::new_array() {
  const std::lock_guard lock(mutex_);
  return arrays_++;
}

void ChunkCache::make_room() {
  for (auto at = entries_.end(); held_bytes_ > max_bytes_ && at != entries_.begin();) {
    --at;
    // A chunk that a thread decodes or copies from needs its memory anyhow.
    if (at->bytes == nullptr || at->bytes.use_count() > 1) continue;
    held_bytes_ -= static_cast<std::int64_t>(at->size);
    by_key_.erase(at->key);
    at = entries_.erase(at);
  }
}

ChunkCache::Bytes ChunkCache::get(std::uint64_t array, std::uint64_t chunk, std::size_t bytes,
                                  const Decode& decode) {
  const std::uint64_t key = (array << array_shift) | chunk;
  std::unique_lock lock(mutex_);
  for (auto found = by_key_.find(key); found != by_key_.end(); found = by_key_.find(key)) {
    if (found->second->bytes != nullptr) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->bytes;
    }
    decoded_.wait(lock);
  }
  Entries added;  // joins the others once its key is there, so that no memory for that leaves no trace
  added.push_front({.key = key, .size = bytes, .bytes = nullptr});
  const auto entry = added.begin();
  by_key_.emplace(key, entry);
  entries_.splice(entries_.begin(), added);
  held_bytes_ += static_cast<std::int64_t>(bytes);
  make_room();
  lock.unlock();
  try {
    std::shared_ptr<std::byte[]> made(new std::byte[bytes]);
    decode({made.get(), bytes});
    lock.lock();
    entry->bytes = std::move(made);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    held_bytes_ -= static_cast<std::int64_t>(bytes);
    by_key_.erase(key);
    entries_.erase(entry);
    decoded_.notify_all();
    throw;
  }
  decoded_.notify_all();
  return entry->bytes;
}

namespace {

constexpr std::size_t checksum_bytes = 4;

/// The state of zlib, made once for each thread.
class Inflater {
 public:
  Inflater() {
    const int code = inflateInit(&stream_);
    if (code != Z_OK) throw LibraryError("inflateInit", zError(code));
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  void inflate_all(std::span<const std::byte> from, std::span<std::byte> to) {
    const int reset = inflateReset(&stream_);
    if (reset != Z_OK) throw LibraryError("inflateReset", zError(reset));
    // zlib takes pointers to what it only reads.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
    stream_.avail_in = static_cast<uInt>(from.size());
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(to.size());
    const int code = inflate(&stream_, Z_FINISH);
    if (code == Z_MEM_ERROR) throw LibraryError("inflate", zError(code));
    if (code != Z_STREAM_END)
      throw DamagedChunk(cat("zlib reports \"", stream_.msg != nullptr ? stream_.msg : zError(code), "\""));
    if (stream_.avail_out != 0)
      throw DamagedChunk(
          cat("it inflates to ", to.size() - stream_.avail_out, " instead of ", to.size(), " bytes"));
  }

 private:
  z_stream stream_{};
};

/// Fletcher's checksum of 16-bit words, big-endian, as HDF5 computes it.
std::uint32_t fletcher32_of(std::span<const std::byte> bytes) {
  constexpr std::size_t words_between_reductions = 360;
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  const auto reduced = [](std::uint32_t sum) { return (sum & 0xFFFFU) + (sum >> 16); };
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[i]); };
  const std::size_t even = bytes.size() - bytes.size() % 2;
  for (std::size_t i = 0; i < even;) {
    const std::size_t end = std::min(even, i + 2 * words_between_reductions);
    for (; i < end; i += 2) {
      low += byte(i) << 8 | byte(i + 1);
      high += low;
    }
    low = reduced(low);
    high = reduced(high);
  }
  if (even < bytes.size()) {
    low += byte(even) << 8;
    high += low;
    low = reduced(low);
    high = reduced(high);
  }
  return reduced(high) << 16 | reduced(low);
}

/// @returns the bytes in front of the checksum
std::span<const std::byte> check_fletcher32(std::span<const std::byte> bytes) {
  if (bytes.size() < checksum_bytes) throw DamagedChunk("it is shorter than its checksum");
  const auto data = bytes.first(bytes.size() - checksum_bytes);
  std::uint32_t stored = 0;
  for (std::size_t k = 0; k < checksum_bytes; ++k)
    stored |= static_cast<std::uint32_t>(bytes[data.size() + k]) << (8 * k);
  if (stored != fletcher32_of(data)) throw DamagedChunk("its Fletcher checksum differs");
  return data;
}

template <std::size_t size>
void join_bytes(std::span<const std::byte> planes, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < size; ++k) to[i * size + k] = planes[k * count + i];
}

/// Undoes shuffle: first all first bytes of the numbers, then all second ones …
void unshuffle(std::span<const std::byte> planes, std::size_t size, std::span<std::byte> to) {
  const std::size_t count = planes.size() / size;
  switch (size) {
    case 2: join_bytes<2>(planes, count, to.data()); break;
    case 4: join_bytes<4>(planes, count, to.data()); break;
    case 8: join_bytes<8>(planes, count, to.data()); break;
    default: std::memcpy(to.data(), planes.data(), count * size);  // of one byte: nothing was moved
  }
  std::memcpy(to.data() + count * size, planes.data() + count * size, planes.size() - count * size);
}

}  // namespace

std::string FilterPipeline::text() const {
  static constexpr std::array<const char*, 3> names = {"deflate", "shuffle", "fletcher32"};
  std::string text;
  for (const ChunkFilter filter : filters)
    text += cat(text.empty() ? "" : ", ", names[static_cast<std::size_t>(filter)]);
  return text;
}

void decode_chunk(const FilterPipeline& pipeline, std::span<const std::byte> stored, std::uint32_t skipped,
                  std::span<std::byte> to) {
  thread_local Inflater inflater;
  thread_local std::array<std::vector<std::byte>, 2>
      rooms;  // by turns, where several filters follow each other
  const auto is_applied = [&](std::size_t k) { return (skipped >> k & 1U) == 0; };
  // Size of the chunk after the first k filters of the pipeline: each checksum adds some bytes.
  const auto bytes_before = [&](std::size_t k) {
    std::size_t bytes = to.size();
    for (std::size_t i = 0; i < k; ++i)
      if (pipeline.filters[i] == ChunkFilter::fletcher32 && is_applied(i)) bytes += checksum_bytes;
    return bytes;
  };
  std::span<const std::byte> now = stored;
  std::size_t turn = 0;
  for (std::size_t k = pipeline.filters.size(); k-- > 0;) {
    if (!is_applied(k)) continue;
    const ChunkFilter filter = pipeline.filters[k];
    if (filter == ChunkFilter::fletcher32) {
      now = check_fletcher32(now);
      continue;
    }
    const std::size_t bytes = bytes_before(k);
    std::vector<std::byte>& room = rooms[turn++ % 2];
    bool last = true;
    for (std::size_t i = 0; i < k; ++i) last = last && !is_applied(i);
    if (!last) room.resize(bytes);
    const std::span<std::byte> result = last ? to : std::span(room).first(bytes);
    if (filter == ChunkFilter::deflate) {
      inflater.inflate_all(now, result);
    } else {
      if (now.size() != bytes)
        throw DamagedChunk(cat("it has ", now.size(), " instead of ", bytes, " bytes"));
      unshuffle(now, pipeline.number_bytes, result);
    }
    now = result;
  }
  if (now.size() != to.size())
    throw DamagedChunk(cat("it has ", now.size(), " instead of ", to.size(), " bytes"));
  if (now.data() != to.data()) std::memcpy(to.data(), now.data(), to.size());
}

namespace {

/// A box of numbers that is copied from a chunk into the rows that a caller asks for.
struct BoxCopy {
  const std::vector<std::int64_t>& box;        ///< Extents
  const std::vector<std::int64_t>& from_step;  ///< Bytes from one to the next along each axis
  const std::vector<std::int64_t>& to_step;

  void run(const std::byte* from, std::byte* to, std::size_t axis = 0) const {
    if (axis + 1 == box.size()) {
      std::memcpy(to, from, static_cast<std::size_t>(box[axis] * from_step[axis]));
      return;
    }
    for (std::int64_t k = 0; k < box[axis]; ++k)
      run(from + k * from_step[axis], to + k * to_step[axis], axis + 1);
  }
};

/// Bytes from one number to the next along each axis of an array with these extents.
std::vector<std::int64_t> steps_of(const std::vector<std::int64_t>& extents, std::int64_t number_bytes) {
  std::vector<std::int64_t> steps(extents.size(), number_bytes);
  for (std::size_t axis = extents.size() - 1; axis-- > 0;) steps[axis] = steps[axis + 1] * extents[axis + 1];
  return steps;
}

class ChunkedArray final : public Array {
 public:
  ChunkedArray(ArrayForm form, std::shared_ptr<const UnchangedFile> file, ChunkTable table,
               std::shared_ptr<ChunkCache> cache)
      : Array(std::move(form)),
        file_(std::move(file)),
        table_(std::move(table)),
        cache_(std::move(cache)),
        array_(cache_->new_array()),
        chunk_rows_(table_.extents.front()),
        chunk_steps_(steps_of(table_.extents, this->form().type.bytes())),
        row_steps_(steps_of(this->form().extents, this->form().type.bytes())),
        chunk_bytes_(static_cast<std::size_t>(chunk_steps_.front() * chunk_rows_)) {
    chunks_of_row_ = 1;
    for (std::size_t axis = 1; axis < table_.extents.size(); ++axis)
      chunks_of_row_ *= table_.along(axis, this->form());
    whole_rows_ =
        std::equal(table_.extents.begin() + 1, table_.extents.end(), this->form().extents.begin() + 1);
    check_chunks();
  }

  std::int64_t rows_at_once() const override { return chunk_rows_; }
  std::int64_t decoded_bytes() const override {
    return reads_rows() ? 0 : form().rows() * form().row_bytes();
  }

  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    while (count > 0) {
      const std::int64_t band = first / chunk_rows_;  // the chunks that hold these rows
      const std::int64_t behind = first - band * chunk_rows_;
      const std::int64_t rows = std::min(count, chunk_rows_ - behind);
      for (std::int64_t k = 0; k < chunks_of_row_; ++k)
        copy_rows(band * chunks_of_row_ + k, behind, rows, to);
      to = to.subspan(static_cast<std::size_t>(rows * form().row_bytes()));
      first += rows;
      count -= rows;
    }
  }

  void will_read(std::int64_t first, std::int64_t count) const override {
    if (table_.reader) return;
    const std::int64_t begin = first / chunk_rows_ * chunks_of_row_;
    const std::int64_t end = ((first + count - 1) / chunk_rows_ + 1) * chunks_of_row_;
    StoredChunk joined;  // chunks that lie one after another in the file
    for (std::int64_t k = begin; k < end; ++k) {
      const StoredChunk& next = table_.chunks[static_cast<std::size_t>(k)];
      if (next.begin < 0) continue;
      if (joined.begin >= 0 && joined.begin + joined.bytes == next.begin &&
          joined.bytes + next.bytes > joined.bytes) {
        joined.bytes += next.bytes;
        continue;
      }
      if (joined.begin >= 0) file_->will_read(joined.begin, joined.bytes);
      joined = next;
    }
    if (joined.begin >= 0) file_->will_read(joined.begin, joined.bytes);
  }

 private:
  void check_chunks() const {
    for (const StoredChunk& chunk : table_.chunks)
      if (chunk.begin > file_->size() - std::int64_t{chunk.bytes})
        throw UserError(cat(form().name, ": is truncated: a chunk of ", chunk.bytes, " bytes begins at byte ",
                            chunk.begin, ", but the file has ", file_->size(),
                            " bytes; copy or write it again"));
    if (!reads_rows() && static_cast<std::int64_t>(chunk_bytes_) > cache_->max_bytes())
      throw UserError(cat(form().name, ": its chunks ", extents_text(table_.extents), " take ",
                          bytes_text(static_cast<std::int64_t>(chunk_bytes_)),
                          ", more than data.cache_mb = ", cache_->max_bytes() >> 20,
                          "; raise it, or rewrite the file without chunks (h5repack -l CONTI OLD NEW)"));
  }

  /// Whether rows lie in the file as they are.
  bool reads_rows() const { return whole_rows_ && table_.pipeline.filters.empty() && !table_.reader; }

  /// Copies rows of a chunk, from row `behind` on, to their places in the rows that a caller asks for.
  void copy_rows(std::int64_t number, std::int64_t behind, std::int64_t rows, std::span<std::byte> to) const {
    const StoredChunk chunk = table_.reader ? StoredChunk() : table_.chunks[static_cast<std::size_t>(number)];
    const std::int64_t begin = behind * chunk_steps_.front();
    const auto bytes = static_cast<std::size_t>(rows * chunk_steps_.front());
    if (whole_rows_ && !table_.reader && chunk.begin < 0) return fill(to.first(bytes));
    if (reads_rows()) return file_->read(chunk.begin + begin, to.first(bytes));
    const ChunkCache::Bytes decoded =
        cache_->get(array_, static_cast<std::uint64_t>(number), chunk_bytes_,
                    [&](std::span<std::byte> room) { decode(chunk, number, room); });
    if (whole_rows_) {
      std::memcpy(to.data(), decoded.get() + begin, bytes);
      return;
    }
    std::vector<std::int64_t> box(table_.extents.size(), rows);
    std::int64_t place = 0;  // of the chunk in a row
    for (std::size_t axis = box.size(); --axis > 0;) {
      const std::int64_t along = table_.along(axis, form());
      const std::int64_t at = number % along * table_.extents[axis];
      number /= along;
      place += at * row_steps_[axis];
      box[axis] = std::min(table_.extents[axis], form().extents[axis] - at);
    }
    BoxCopy{box, chunk_steps_, row_steps_}.run(decoded.get() + begin, to.data() + place);
  }

  /// The position in the array of a chunk's first number.
  std::vector<std::int64_t> place_of(std::int64_t number) const {
    std::vector<std::int64_t> place(table_.extents.size());
    for (std::size_t axis = place.size(); axis-- > 0;) {
      const std::int64_t along = table_.along(axis, form());
      place[axis] = number % along * table_.extents[axis];
      number /= along;
    }
    return place;
  }

  /// Numbers that were never written.
  void fill(std::span<std::byte> to) const {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = table_.fill[i % table_.fill.size()];
  }

  void decode(StoredChunk chunk, std::int64_t number, std::span<std::byte> to) const {
    thread_local std::vector<std::byte> stored;
    const bool written =
        table_.reader ? table_.reader->read(place_of(number), stored, chunk.skipped) : chunk.begin >= 0;
    if (!written) return fill(to);
    if (!table_.reader) {
      stored.resize(chunk.bytes);
      file_->read(chunk.begin, stored);
    }
    try {
      decode_chunk(table_.pipeline, stored, chunk.skipped, to);
    } catch (const DamagedChunk& error) {
      file_->check();
      throw UserError(cat(form().name, ": the chunk of rows from ", number / chunks_of_row_ * chunk_rows_,
                          " on", chunk.begin < 0 ? "" : cat(" (byte ", chunk.begin, ")"),
                          " is damaged: ", error.what(), "; copy or write the file again"));
    }
  }

  std::shared_ptr<const UnchangedFile> file_;
  ChunkTable table_;
  std::shared_ptr<ChunkCache> cache_;
  std::uint64_t array_;
  std::int64_t chunk_rows_;
  std::vector<std::int64_t> chunk_steps_;  ///< Bytes along each axis of a chunk
  std::vector<std::int64_t> row_steps_;    ///< Bytes along each axis of rows
  std::size_t chunk_bytes_;                ///< Decoded
  std::int64_t chunks_of_row_ = 1;
  bool whole_rows_ = false;  ///< A chunk holds whole rows
};

}  // namespace

std::unique_ptr<Array> make_chunked_array(ArrayForm form, std::shared_ptr<const UnchangedFile> file,
                                          ChunkTable table, std::shared_ptr<ChunkCache> cache) {
  return std::make_unique<ChunkedArray>(std::move(form), std::move(file), std::move(table), std::move(cache));
}

}  // namespace flotilla
