// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/parameter_server/protocol/serve_plan.hpp"

namespace flotilla {
namespace {

ArenaLayout layout_of(const std::vector<Shape>& shapes) {
  ArenaLayout layout;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    layout.add("t" + std::to_string(i), shapes[i], ParameterKind::weight);
  return layout;
}

std::vector<std::int64_t> sizes(const Placement& placement) {
  std::vector<std::int64_t> result;
  for (const Block& block : placement.blocks()) result.push_back(block.size);
  return result;
}

std::vector<int> owners(const Placement& placement) {
  std::vector<int> result;
  for (const Block& block : placement.blocks()) result.push_back(block.server);
  return result;
}

using Sizes = std::vector<std::int64_t>;

TEST(Placement, CutsTensorsAsTheOriginalDoes) {
  // n values, m = n ÷ 8192, c = min(S, m), b = ⌈n ÷ c⌉, whole rows: worked out by hand.
  EXPECT_EQ(sizes(Placement(layout_of({{8191}}), 4, {})), (Sizes{8191}));
  EXPECT_EQ(sizes(Placement(layout_of({{16383}}), 4, {})), (Sizes{16383}));
  EXPECT_EQ(sizes(Placement(layout_of({{16384}}), 4, {})), (Sizes{8192, 8192}));
  EXPECT_EQ(sizes(Placement(layout_of({{24577}}), 2, {})), (Sizes{12289, 12288}));
  EXPECT_EQ(sizes(Placement(layout_of({{40000}}), 3, {})), (Sizes{13334, 13334, 13332}));
  // Rows of 100: ⌈40000 ÷ 3⌉ = 13334 becomes 13400.
  EXPECT_EQ(sizes(Placement(layout_of({{400, 100}}), 3, {})), (Sizes{13400, 13400, 13200}));
  // Rows of 9000: one each, whatever the servers' number.
  EXPECT_EQ(sizes(Placement(layout_of({{3, 9000}}), 8, {})), (Sizes{9000, 9000, 9000}));
  // Rounding up makes do with fewer blocks than servers: ⌈50000 ÷ 4⌉ = 12500 becomes 20000.
  EXPECT_EQ(sizes(Placement(layout_of({{5, 10, 10, 100}}), 4, {})), (Sizes{20000, 20000, 10000}));
}

TEST(Placement, NamesBlocksAfterTheirTensor) {
  const Placement placement(layout_of({{16384}, {10}}), 2, {});

  ASSERT_EQ(placement.blocks().size(), 3U);
  EXPECT_EQ(placement.blocks()[0].name, "t0.block0");
  EXPECT_EQ(placement.blocks()[1].name, "t0.block1");
  EXPECT_EQ(placement.blocks()[1].offset, 8192);
  EXPECT_EQ(placement.blocks()[2].name, "t1");
  EXPECT_EQ(placement.blocks()[2].tensor, 1U);
}

TEST(Placement, CountsRoundRobinOnFromTensorToTensor) {
  EXPECT_EQ(owners(Placement(layout_of({{10}, {16384}, {10}, {10}}), 3, {})), (std::vector{0, 1, 2, 0, 1}));
}

TEST(Placement, KeepsTensorsWholeOnRequest) {
  const Placement placement(layout_of({{100, 1000}, {7}}), 2, {.slice_parameters = false});

  EXPECT_EQ(sizes(placement), (Sizes{100'000, 7}));
  EXPECT_EQ(placement.blocks()[0].name, "t0");
}

TEST(Placement, HashesNamesTheSameEverywhere) {
  // Published vectors of 64-bit FNV-1a.
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8U);

  const Placement placement(layout_of({{16384}, {10}}), 2, {.split = Split::hash_name});

  for (const Block& block : placement.blocks())
    EXPECT_EQ(block.server, static_cast<int>(fnv1a(block.name) % 2)) << block.name;
}

TEST(Placement, GivesEveryValueToOneServer) {
  const std::vector<Shape> shapes = {{64, 3, 7, 7}, {64}, {512, 512, 3, 3}, {1000, 512},
                                     {1000},        {1},  {50'001}};
  const ArenaLayout layout = layout_of(shapes);
  for (const Split split : {Split::round_robin, Split::hash_name}) {
    for (const bool slice : {true, false}) {
      for (int servers = 1; servers <= 9; ++servers) {
        const Placement placement(layout, servers, {.split = split, .slice_parameters = slice});

        std::vector<int> owned(static_cast<std::size_t>(layout.size()), 0);
        std::int64_t all = 0;
        for (int server = 0; server < servers; ++server) {
          std::size_t end = 0;
          for (const mpi::SliceBounds& run : placement.runs(server)) {
            ASSERT_TRUE(end <= run.begin && run.begin < run.end);
            end = run.end;
            for (std::size_t i = run.begin; i < end; ++i) ++owned[i];
          }
          all += placement.values(server);
        }
        EXPECT_EQ(all, layout.values());
        for (const Slice& tensor : layout.slices()) {
          for (std::int64_t i = 0; i < tensor.size; ++i)
            ASSERT_EQ(owned[static_cast<std::size_t>(tensor.offset + i)], 1) << tensor.name << " " << i;
        }
        EXPECT_TRUE(std::ranges::all_of(owned, [](int times) { return times <= 1; }));
        for (const Block& block : placement.blocks()) {
          const Shape& shape = layout[block.tensor].shape;
          const std::int64_t row = shape.rank() < 2 ? 1 : shape.size() / shape[0];
          EXPECT_EQ(block.size % row, 0);
          EXPECT_TRUE(block.size >= 8192 ||
                      block.offset + block.size == layout[block.tensor].offset + shape.size());
        }
      }
    }
  }
}

TEST(Placement, JoinsNeighboursOfOneServerWithThePaddingBetween) {
  // Slices begin at multiples of 16.
  const Placement one(layout_of({{10}, {20}, {5}}), 1, {});
  EXPECT_EQ(one.runs(0), (std::vector<mpi::SliceBounds>{{0, 53}}));

  const Placement two(layout_of({{10}, {20}, {5}}), 2, {});
  EXPECT_EQ(two.runs(0), (std::vector<mpi::SliceBounds>{{0, 10}, {48, 53}}));
  EXPECT_EQ(two.runs(1), (std::vector<mpi::SliceBounds>{{16, 36}}));
}

TEST(Placement, TellsTheBalance) {
  const Placement placement(layout_of({{30}, {10}}), 2, {});

  EXPECT_EQ(placement.imbalance(), 1.5);
  EXPECT_EQ(placement.lines(), (std::vector<std::string>{"server 0: 1 block, 120 B",
                                                         "server 1: 1 block, 40 B", "largest ÷ mean: 1.50"}));
  EXPECT_EQ(Placement(layout_of({{30}}), 3, {}).imbalance(), 3.0);
  EXPECT_EQ(Placement(layout_of({{100, 1000}}), 2, {}).imbalance(), 1.0);
}

TEST(Placement, CutsWhatADeviceStoresLargerThanItIsAtWhole64Bytes) {
  ArenaLayout layout;
  layout.add("blocked", {3, 11}, ParameterKind::weight, 48);

  const Placement placement(layout, 2, {.min_block_size = 4});

  ASSERT_EQ(placement.blocks().size(), 2U);
  EXPECT_EQ(placement.blocks()[0].size, 32);
  EXPECT_EQ(placement.blocks()[1].size, 16);
}

TEST(Placement, NeedsAServer) {
  EXPECT_THROW(Placement(layout_of({{3}}), 0, {}), InternalError);
}

}  // namespace
}  // namespace flotilla
