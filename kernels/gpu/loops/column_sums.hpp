// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gpu/loops/tiles.hpp"

/// Sums over the rows of a matrix, one or two per channel, in two kernels: each team writes the sums of its
/// tile, then the tiles are added in a fixed order. Where one tile has all rows, the first kernel does both.
/// No atomics: the bits are always the same.
namespace flotilla::loops {

/// Teams of sums that run side by side on a processor of a GPU: a lane has 80 registers then, room for two
/// rows of four arrays under way.
inline constexpr int sum_teams_side_by_side = 3;
/// Teams that sum, at most: as many as a large GPU runs at once. On an H200 one such wave read 3.1 to
/// 3.5 TB/s in the statistics and sums of ResNet-50, 2,048 teams 2.8.
inline constexpr std::int64_t sum_teams = large_gpu * sum_teams_side_by_side;

/// Floats of scratch: two sums for each channel of each row block.
inline std::size_t partial_floats(const Tiles& tiles, std::int64_t channels) {
  return static_cast<std::size_t>(2 * channels * tiles.row_blocks);
}

/// Adds a tile's numbers to the totals of a channel: result.add(row block, channel, numbers of the tile,
/// first total, second total) where Result has that function, otherwise the tile's sums.
template <class Result>
KOKKOS_INLINE_FUNCTION void add_tile(const Result& result, std::int64_t block, std::int64_t channel,
                                     const Floats<2>& tile, double& first, double& second) {
  if constexpr (requires { result.add(block, channel, tile, first, second); }) {
    result.add(block, channel, tile, first, second);
  } else {
    first += static_cast<double>(tile[0]);
    second += static_cast<double>(tile[1]);
  }
}

/// partials (row blocks, 2, channels) ← the sums of tiles; Term says what a lane adds:
/// term(tiles, place, first row of the tile, Floats<V>& first sums, Floats<V>& second sums).
/// An optional term.finish(tiles, first row of the tile, channel, first, second) turns the sums of a
/// tile into other numbers. A tile that has all rows calls result(channel, first total, second total).
template <class Space, int V, class Term, class Result>
struct TileSums {
  using Team = TeamOf<Space>;
  Tiles tiles;
  Term term;
  float* partials = nullptr;
  Result result;

  static constexpr std::size_t scratch_bytes = sizeof(float) * 2 * V * team_lanes;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    float* const sums = shared<float>(team, 2 * V * team_lanes);  // (2·V, lanes): no bank conflicts
    each_lane(team, team_lanes, [&](int lane) {
      Floats<V> first{};
      Floats<V> second{};
      const LanePlace at = place_of(tiles, team.league_rank(), lane);
      if (at.pack >= 0) term(tiles, at, first_row(tiles, team.league_rank()), first, second);
      for (int v = 0; v < V; ++v) {
        sums[v * team_lanes + lane] = first[v];
        sums[(V + v) * team_lanes + lane] = second[v];
      }
    });
    each_lane(team, tiles.columns * V, [&](int out) {
      const std::int32_t column = out / V;
      const std::int32_t v = out % V;
      const std::int32_t pack = team.league_rank() % tiles.column_blocks * tiles.columns + column;
      if (pack >= tiles.packs) return;
      float first = 0.0F;
      float second = 0.0F;
      for (std::int32_t down = 0; down < tiles.depth; ++down) {
        first += sums[v * team_lanes + down * tiles.columns + column];
        second += sums[(V + v) * team_lanes + down * tiles.columns + column];
      }
      const std::int64_t channels = std::int64_t{tiles.packs} * V;
      const std::int64_t channel = std::int64_t{pack} * V + v;
      if constexpr (requires { term.finish(tiles, channels, channel, first, second); })
        term.finish(tiles, first_row(tiles, team.league_rank()), channel, first, second);
      float* const to = partials + 2 * channels * row_block(tiles, team.league_rank()) + channel;
      to[0] = first;
      to[channels] = second;
      if (tiles.row_blocks > 1) return;
      double first_total = 0.0;
      double second_total = 0.0;
      add_tile(result, 0, channel, {first, second}, first_total, second_total);
      result(channel, first_total, second_total);
    });
  }
  friend bool operator==(const TileSums&, const TileSums&) = default;
};

/// Channels of a team that adds the tiles up, and lanes that share each of them: 32 bytes side by side. A
/// channel has at most 396 row blocks (sum_teams), 13 for a lane, which waits four times for four of them.
inline constexpr int finish_channels = 8;
inline constexpr int finish_lanes = team_lanes / finish_channels;

/// Adds the tiles up and calls result(channel, first total, second total).
template <class Space, class Result>
struct FinishSums {
  using Team = TeamOf<Space>;
  Tiles tiles;
  std::int64_t channels = 0;
  const float* partials = nullptr;
  Result result;

  static constexpr std::size_t scratch_bytes = sizeof(double) * 2 * team_lanes;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    double* const sums = shared<double>(team, 2 * team_lanes);  // (2, finish_lanes, finish_channels)
    const std::int64_t begin = std::int64_t{team.league_rank()} * finish_channels;
    each_lane(team, team_lanes, [&](int lane) {
      const std::int64_t channel = begin + lane % finish_channels;
      double first = 0.0;
      double second = 0.0;
      if (channel < channels) {
        walk<4>(
            lane / finish_channels, tiles.row_blocks, finish_lanes,
            [&](std::int64_t block) {
              const float* const from = partials + 2 * channels * block + channel;
              return Floats<2>{from[0], from[channels]};
            },
            [&](std::int64_t block, const Floats<2>& tile) {
              add_tile(result, block, channel, tile, first, second);
            });
      }
      sums[lane] = first;
      sums[team_lanes + lane] = second;
    });
    each_lane(team, finish_channels, [&](int lane) {
      if (begin + lane >= channels) return;
      double first = 0.0;
      double second = 0.0;
      for (int part = lane; part < team_lanes; part += finish_channels) {
        first += sums[part];
        second += sums[team_lanes + part];
      }
      result(begin + lane, first, second);
    });
  }
  friend bool operator==(const FinishSums&, const FinishSums&) = default;
};

/// Sums the columns of a matrix: calls result(channel, first total, second total). `partials` is scratch of
/// partial_floats. A result that says it is not wanted is not called: only the terms' own work is done then.
template <int V, class Space, class Term, class Result>
void sum_columns(const Space& space, const char* name, const Tiles& tiles, const Term& term, float* partials,
                 const Result& result) {
  using Sums = TileSums<Space, V, Term, Result>;
  for_each_team<sum_teams_side_by_side>(space, name, tiles.teams(), team_lanes, Sums::scratch_bytes,
                                        Sums{tiles, term, partials, result});
  if (tiles.row_blocks == 1) return;
  if constexpr (requires { result.wanted(); }) {
    if (!result.wanted()) return;
  }
  using Finish = FinishSums<Space, Result>;
  const std::int64_t channels = std::int64_t{tiles.packs} * V;
  for_each_team(space, name, (channels + finish_channels - 1) / finish_channels, team_lanes,
                Finish::scratch_bytes, Finish{tiles, channels, partials, result});
}

}  // namespace flotilla::loops
