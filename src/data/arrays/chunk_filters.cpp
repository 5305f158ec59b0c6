// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/chunk_filters.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace flotilla {

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
  // Bytes behind the filters that come first: each checksum adds some.
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

}  // namespace flotilla
