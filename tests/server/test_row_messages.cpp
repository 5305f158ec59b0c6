// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/server/row_messages.hpp"
#include "src/server/row_tables.hpp"

namespace flotilla {
namespace {

const std::vector<std::size_t> widths = {1, 8, 3};

/// A request of one section of each kind.
RowRequest sample_request() {
  RowRequest request;
  for (const auto operation :
       {RowOperation::push, RowOperation::pull, RowOperation::add, RowOperation::peek}) {
    const std::size_t table = static_cast<std::size_t>(operation) % 3;
    const RowRequest::Room room = request.add_section(table, operation, 5, widths[table]);
    for (std::size_t i = 0; i < room.keys.size(); ++i) room.keys[i] = 100 * table + i;
    for (std::size_t i = 0; i < room.values.size(); ++i) room.values[i] = static_cast<float>(i);
  }
  return request;
}

TEST(RowMessages, AreReadAsWritten) {
  RowRequest request = sample_request();
  RowRequestReader reader(request.bytes(), widths);

  for (const auto operation :
       {RowOperation::push, RowOperation::pull, RowOperation::add, RowOperation::peek}) {
    const auto section = reader.next();
    const std::size_t table = static_cast<std::size_t>(operation) % 3;
    ASSERT_TRUE(section);
    EXPECT_EQ(section->table, table);
    EXPECT_EQ(section->operation, operation);
    ASSERT_EQ(section->keys.size(), 5U);
    EXPECT_EQ(section->keys[4], 100 * table + 4);
    ASSERT_EQ(section->values.size(), has_values(operation) ? 5 * widths[table] : 0);
    if (has_values(operation)) {
      EXPECT_EQ(section->values.back(), static_cast<float>(section->values.size() - 1));
    }
  }
  EXPECT_FALSE(reader.next());
  request.clear();
  EXPECT_FALSE(RowRequestReader(request.bytes(), widths).next());
}

/// Reads to the end; whatever stands there must not be read beyond it.
void read_all(std::span<const std::byte> bytes) {
  RowRequestReader reader(bytes, widths);
  while (const auto section = reader.next()) {
    ASSERT_GE(reinterpret_cast<const std::byte*>(section->keys.data()), bytes.data());
    ASSERT_LE(section->keys.size_bytes() + section->values.size_bytes(), bytes.size());
  }
}

TEST(RowMessages, MalformedOnesAreErrors) {
  const RowRequest request = sample_request();
  const std::vector<std::byte> good(request.bytes().begin(), request.bytes().end());
  std::size_t whole = 0;
  for (std::size_t length = 0; length < good.size(); ++length) {
    // Cut off behind a section it is a request of fewer of them.
    try {
      read_all(std::span(good).first(length));
      ++whole;
    } catch (const InternalError&) {
    }
  }
  EXPECT_EQ(whole, 4U);

  const auto with_word = [&](std::size_t at, auto word) {
    std::vector<std::byte> bad = good;
    std::memcpy(bad.data() + at, &word, sizeof(word));
    return bad;
  };
  EXPECT_THROW(read_all(with_word(0, std::uint32_t{3})), InternalError);
  EXPECT_THROW(read_all(with_word(4, std::uint32_t{4})), InternalError);
  for (const std::uint64_t rows :
       {~std::uint64_t{0}, std::uint64_t{1} << 61, std::uint64_t{1} << 62, std::uint64_t{good.size()}})
    EXPECT_THROW(read_all(with_word(8, rows)), InternalError) << rows;
  EXPECT_THROW(read_all(std::span(good).subspan(1)), InternalError);
}

TEST(RowMessages, RandomBytesAreNoCrash) {
  Random random(5, random_data);
  int read = 0;
  int refused = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    std::vector<std::byte> bytes(random.below(200));
    for (auto& byte : bytes) byte = static_cast<std::byte>(random.below(4) == 0 ? random.below(256) : 0);
    try {
      read_all(bytes);
      ++read;
    } catch (const InternalError&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, read);
}

TEST(RowMessages, KeysAreDealtOutTheSameForAllTime) {
  // The first outputs of SplitMix64 from state 0, as published, begin with e, 6, 0 and f.
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U;
  EXPECT_EQ(server_of(0, 16), 0xe);
  EXPECT_EQ(server_of(golden, 16), 0x6);
  EXPECT_EQ(server_of(2 * golden, 16), 0x0);
  EXPECT_EQ(server_of(3 * golden, 16), 0xf);
  EXPECT_EQ(server_of(0, 65536), 0xe220);
  EXPECT_EQ(server_of(golden, 65536), 0x6e78);
  EXPECT_EQ(server_of(12345, 1), 0);
}

TEST(RowMessages, KeysAreDealtOutEvenly) {
  // Binomial: a share of n / s has the deviation √(n / s); six of them are beyond chance.
  constexpr double n = 100'000;
  for (const int servers : {2, 3, 7, 64}) {
    for (const std::uint64_t stride : {1ULL, 64ULL, 1ULL << 32, 0x9E3779B97F4A7C15ULL}) {
      std::vector<int> share(static_cast<std::size_t>(servers));
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(n); ++i)
        ++share[static_cast<std::size_t>(server_of(i * stride, servers))];
      for (const int keys : share) EXPECT_LT(std::abs(keys - n / servers), 6.0 * std::sqrt(n / servers));
    }
  }
}

TEST(RowTables, ChecksTheReplysLength) {
  const SparseTableSpec spec{.width = 2, .start = {.kind = StartKind::zero}};
  RowTables tables(std::span(&spec, 1));
  RowRequest request;
  request.add_section(0, RowOperation::pull, 1, 2).keys[0] = 5;
  std::vector<float> reply(3);

  EXPECT_THROW(tables.answer(request.bytes(), std::as_writable_bytes(std::span(reply))), InternalError);
  EXPECT_THROW(tables.answer(request.bytes(), std::as_writable_bytes(std::span(reply).first(1))),
               InternalError);
  tables.answer(request.bytes(), std::as_writable_bytes(std::span(reply).first(2)));
  EXPECT_EQ(tables[0].rows(), 1U);
}

}  // namespace
}  // namespace flotilla
