// SPDX-License-Identifier: Apache-2.0
#include "tests/data/idx_files.hpp"

#include <zlib.h>

#include <fstream>
#include <stdexcept>

namespace flotilla::test {

Bytes header(const std::vector<std::uint32_t>& numbers) {
  Bytes bytes;
  for (const std::uint32_t number : numbers) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
  }
  return bytes;
}

Bytes join(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Bytes deflated(const Bytes& plain, int level, int window_bits) {
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  Bytes out(deflateBound(&stream, static_cast<uLong>(plain.size())));
  Bytes in = plain;
  stream.next_in = in.data();
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return out;
}

Bytes gzip(const Bytes& plain) {
  return deflated(plain, 9, 16 + MAX_WBITS);
}

void save(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::uint8_t pixel(std::int64_t image, std::int64_t position) {
  return static_cast<std::uint8_t>((31 * image + position) % 256);
}

Bytes images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  Bytes bytes = header({2051, count, rows, columns});
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t p = 0; p < rows * columns; ++p) bytes.push_back(pixel(i, p));
  }
  return bytes;
}

Bytes labels(std::uint32_t count, std::uint32_t classes) {
  Bytes bytes = header({2049, count});
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(i % classes));
  return bytes;
}

}  // namespace flotilla::test
