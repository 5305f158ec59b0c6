// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gpu/loops/launch.hpp"

namespace flotilla::loops {

/// The distribution of a matrix (rows, channels), channels innermost, over teams. A team takes `columns`
/// packs of channels in `block_rows` rows: lanes side by side read neighbouring packs, the others the rows
/// below, and each keeps what it needs of its channels in registers while it walks down. The cut depends on
/// the sizes only, so sums have the same bits everywhere.
struct Tiles {
  std::int64_t rows = 0;
  std::int64_t block_rows = 0;
  std::int32_t packs = 0;    ///< Packs in a row.
  std::int32_t columns = 0;  ///< Lanes side by side.
  std::int32_t depth = 0;    ///< Lanes below one another.
  std::int32_t column_blocks = 0;
  std::int32_t row_blocks = 0;

  KOKKOS_INLINE_FUNCTION std::int64_t teams() const { return std::int64_t{column_blocks} * row_blocks; }
  friend bool operator==(const Tiles&, const Tiles&) = default;
};

/// The rows and the pack of a lane. `pack` is negative for a lane without work.
struct LanePlace {
  std::int32_t pack = -1;
  std::int64_t first = 0;  ///< Row; then every `depth` rows.
  std::int64_t last = 0;
};

/// @param max_teams Fewer mean longer walks: right for sums, whose results are added up afterwards.
/// @param lane_rows Minimum number of rows of a lane: with fewer, its set-up would cost more than the rows.
inline Tiles tiles_of(std::int64_t rows, std::int64_t packs, std::int64_t max_teams,
                      std::int64_t lane_rows = 8) {
  require(rows > 0 && packs > 0 && packs <= 0x7FFFFFFF, "a matrix of ", rows, " rows and ", packs,
          " packs has no tiles");
  Tiles tiles;
  tiles.rows = rows;
  tiles.packs = static_cast<std::int32_t>(packs);
  tiles.columns = static_cast<std::int32_t>(std::min<std::int64_t>(packs, 32));
  tiles.depth = team_lanes / tiles.columns;
  tiles.column_blocks = (tiles.packs + tiles.columns - 1) / tiles.columns;
  const std::int64_t wanted = std::max<std::int64_t>(max_teams / tiles.column_blocks, 1);
  tiles.block_rows = std::max((rows + wanted - 1) / wanted, lane_rows * tiles.depth);
  tiles.row_blocks = static_cast<std::int32_t>((rows + tiles.block_rows - 1) / tiles.block_rows);
  return tiles;
}

/// The row block of a team; teams side by side share rows.
KOKKOS_INLINE_FUNCTION std::int32_t row_block(const Tiles& tiles, int team) {
  return team / tiles.column_blocks;
}

KOKKOS_INLINE_FUNCTION std::int64_t first_row(const Tiles& tiles, int team) {
  return row_block(tiles, team) * tiles.block_rows;
}

KOKKOS_INLINE_FUNCTION LanePlace place_of(const Tiles& tiles, int team, int lane) {
  const std::int32_t pack = team % tiles.column_blocks * tiles.columns + lane % tiles.columns;
  const std::int32_t down = lane / tiles.columns;
  if (pack >= tiles.packs || down >= tiles.depth) return {};
  const std::int64_t begin = first_row(tiles, team);
  const std::int64_t end = begin + tiles.block_rows;
  return {pack, begin + down, end < tiles.rows ? end : tiles.rows};
}

/// Calls read(i) for U indices from `first` on, in steps of `stride`, then use(i, what was read) for them,
/// and so on up to `last`: U reads are under way at once.
template <int U, class Read, class Use>
KOKKOS_INLINE_FUNCTION void walk(std::int64_t first, std::int64_t last, std::int64_t stride, const Read& read,
                                 const Use& use) {
  std::int64_t i = first;
  for (; i + (U - 1) * stride < last; i += U * stride) {
    decltype(read(i)) values[U];
    for (int u = 0; u < U; ++u) values[u] = read(i + u * stride);
    for (int u = 0; u < U; ++u) use(i + u * stride, values[u]);
  }
  for (; i < last; i += stride) use(i, read(i));
}
/// Walks over the rows of a lane.
template <int U, class Read, class Use>
KOKKOS_INLINE_FUNCTION void walk(const Tiles& tiles, const LanePlace& at, const Read& read, const Use& use) {
  walk<U>(at.first, at.last, tiles.depth, read, use);
}

/// The order in which the teams of a pass take the rows. A pass that follows one over the same values runs
/// backwards: what was read last is still in the GPU's cache.
enum class RowOrder { forwards, backwards };

/// A functor on tiles, called with the place of every lane that has work.
template <class Space, class Functor>
struct TileMap {
  using Team = TeamOf<Space>;
  Tiles tiles;
  Functor functor;
  RowOrder order;
  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const int rank = team.league_rank();
    const int tile = order == RowOrder::forwards ? rank : static_cast<int>(tiles.teams()) - 1 - rank;
    each_lane(team, team_lanes, [&](int lane) {
      const LanePlace at = place_of(tiles, tile, lane);
      if (at.pack >= 0) functor(tiles, at);
    });
  }
  friend bool operator==(const TileMap&, const TileMap&) = default;
};
/// Passes over all values: four times as many teams as a large GPU runs at once even out.
inline constexpr std::int64_t map_teams = 4096;
template <class Space, class Functor>
void map_tiles(const Space& space, const char* name, std::int64_t rows, std::int64_t packs,
               const Functor& functor, RowOrder order = RowOrder::forwards) {
  // Few values are better spread over all processors.
  const bool few = rows * packs < large_gpu * team_lanes * 8;
  const Tiles tiles = few ? tiles_of(rows, packs, map_teams, 1) : tiles_of(rows, packs, map_teams);
  for_each_team(space, name, tiles.teams(), team_lanes, 0, TileMap<Space, Functor>{tiles, functor, order});
}

}  // namespace flotilla::loops
