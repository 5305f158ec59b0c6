// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/parameter_server/protocol/row_messages.hpp"
#include "src/parameter_server/protocol/row_placement.hpp"
#include "src/parameter_server/server/row_store.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

const std::vector<std::size_t> widths = {1, 8, 3};

/// A request of one section of each kind.
RowRequest sample_request(mpi::Wire wire = mpi::Wire::float32) {
  RowRequest request(wire);
  for (const auto operation :
       {RowOperation::push, RowOperation::pull, RowOperation::add, RowOperation::pull_without_insert}) {
    const std::size_t table = static_cast<std::size_t>(operation) % 3;
    const RowRequest::Room room = request.add_section(table, operation, 5, widths[table]);
    for (std::size_t i = 0; i < room.keys.size(); ++i) room.keys[i] = 100 * table + i;
    if (!has_values(operation)) continue;
    std::vector<float> values(5 * widths[table]);
    std::iota(values.begin(), values.end(), 0.0F);
    mpi::encode(wire, values, room.values.data());
  }
  return request;
}

void expect_read_as_written(mpi::Wire wire) {
  RowRequest request = sample_request(wire);
  RowRequestReader reader(request.bytes(), widths, wire);

  for (const auto operation :
       {RowOperation::push, RowOperation::pull, RowOperation::add, RowOperation::pull_without_insert}) {
    const auto section = reader.next();
    const std::size_t table = static_cast<std::size_t>(operation) % 3;
    ASSERT_TRUE(section);
    EXPECT_EQ(section->table, table);
    EXPECT_EQ(section->operation, operation);
    ASSERT_EQ(section->keys.size(), 5U);
    EXPECT_EQ(section->keys[4], 100 * table + 4);
    std::vector<float> values(has_values(operation) ? 5 * widths[table] : 0);
    ASSERT_EQ(section->values.size(), values.size() * mpi::bytes_per_value(wire));
    if (has_values(operation)) {
      mpi::decode(wire, section->values.data(), values);
      EXPECT_EQ(values.back(), static_cast<float>(values.size() - 1));
    }
  }
  EXPECT_FALSE(reader.next());
}

TEST(RowMessages, AreReadAsWritten) {
  for (const mpi::Wire wire : {mpi::Wire::float32, mpi::Wire::float16, mpi::Wire::bfloat16})
    expect_read_as_written(wire);
  RowRequest request = sample_request();
  request.clear();
  EXPECT_FALSE(RowRequestReader(request.bytes(), widths).next());
}

/// Reads to the end; nothing may be read beyond it, whatever the bytes are.
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
    // Truncated after a section it is a valid request of fewer sections.
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
      for (const int keys : share)
        EXPECT_TRUE(test::within(std::abs(keys - n / servers), 0.0, 6.0 * std::sqrt(n / servers)));
    }
  }
}

TEST(RowTables, TakeWhatHalfWiresMakeOfGradientsAndDifferences) {
  const SparseTableSpec spec{.width = 1, .start = {.kind = StartKind::zero}};
  const float third = 1.0F / 3.0F;
  for (const mpi::Wire wire : {mpi::Wire::float16, mpi::Wire::bfloat16}) {
    RowTables tables(std::span(&spec, 1), wire);
    RowRequest request(wire);
    for (const auto operation : {RowOperation::push, RowOperation::add}) {
      const RowRequest::Room room = request.add_section(0, operation, 1, 1);
      room.keys[0] = operation == RowOperation::push ? 1 : 2;
      mpi::encode(wire, std::span(&third, 1), room.values.data());
    }
    std::vector<float> rows(2);
    tables[0].pull(std::vector<std::uint64_t>{1, 2}, rows);

    const std::span<const std::byte> bytes = request.bytes();
    const PushCounts counts = tables.apply(std::span(&bytes, 1), 1.0F, 1.0F, 1);

    tables[0].pull(std::vector<std::uint64_t>{1, 2}, rows);
    EXPECT_EQ(counts.updated, 2U);
    EXPECT_EQ(rows[0], -rows[1]);
    EXPECT_NE(rows[1], third);
    std::vector<std::byte> encoded(mpi::bytes_per_value(wire));
    float rounded = 0.0F;
    mpi::encode(wire, std::span(&third, 1), encoded.data());
    mpi::decode(wire, encoded.data(), std::span(&rounded, 1));
    EXPECT_EQ(rows[1], rounded);
  }
}

TEST(RowTables, AnswerWithRowsThatAreRoundedAndKeepTheirOwn) {
  const SparseTableSpec spec{.width = 3, .start = {.kind = StartKind::zero}};
  const std::vector<std::uint64_t> keys = {7, 9};
  const std::vector<float> own = {1.0F / 3.0F, -2.0F / 3.0F, 1.0F, 1e-3F, 100.1F, 0.0F};
  for (const mpi::Wire wire : {mpi::Wire::float16, mpi::Wire::bfloat16}) {
    RowTables tables(std::span(&spec, 1), wire);
    tables[0].write(keys, own);
    RowRequest request(wire);
    std::ranges::copy(keys, request.add_section(0, RowOperation::pull, 2, 3).keys.begin());
    std::vector<std::byte> expected(own.size() * mpi::bytes_per_value(wire));
    mpi::encode(wire, own, expected.data());

    std::vector<std::byte> reply(expected.size());
    tables.answer(request.bytes(), reply);

    EXPECT_EQ(reply, expected);
    std::vector<float> kept(own.size());
    tables[0].pull(keys, kept);
    EXPECT_EQ(kept, own);
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
