// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla::test {

using Bytes = std::vector<std::uint8_t>;

/// Header numbers, each four bytes, big-endian.
Bytes header(const std::vector<std::uint32_t>& numbers);
Bytes join(Bytes left, const Bytes& right);
/// `plain` compressed by zlib's deflate. @param window_bits of deflateInit2: -15 without a head, 31 as gzip
Bytes deflated(const Bytes& plain, int level, int window_bits);
Bytes gzip(const Bytes& plain);
void save(const std::string& path, const Bytes& bytes);

/// Images whose pixel p of image i is (31 i + p) mod 256.
Bytes images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns);
/// Labels i mod classes.
Bytes labels(std::uint32_t count, std::uint32_t classes);
std::uint8_t pixel(std::int64_t image, std::int64_t position);

}  // namespace flotilla::test
