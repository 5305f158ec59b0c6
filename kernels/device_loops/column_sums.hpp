// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device_loops/tiles.hpp"

/// Sums over the rows of a matrix, one or two per channel, in two kernels: each team writes the sums of its
/// tile, then the tiles are added in a fixed order. No atomics: the bits are always the same.
namespace flotilla::loops {

/// Teams that sum: a GPU of 132 processors runs 528 of them at once.
inline constexpr std::int64_t sum_teams = 512;

/// Floats of scratch: two sums for each channel of each row block.
inline std::size_t partial_floats(const Tiles& tiles, std::int64_t channels) {
  return static_cast<std::size_t>(2 * channels * tiles.row_blocks);
}

/// partials (row blocks, 2, channels) ← the sums of tiles; Term says what a lane adds:
/// term(tiles, place, first row of the tile, Floats<V>& first sums, Floats<V>& second sums).
/// finish(row block, first, second) may turn the sums of a tile into other numbers.
template <class Space, int V, class Term>
struct TileSums {
  using Team = TeamOf<Space>;
  Tiles tiles;
  Term term;
  float* partials = nullptr;

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
      float* const to =
          partials + 2 * channels * row_block(tiles, team.league_rank()) + std::int64_t{pack} * V + v;
      to[0] = first;
      to[channels] = second;
    });
  }
};

template <int V, class Space, class Term>
void sum_tiles(const Space& space, const char* name, const Tiles& tiles, const Term& term, float* partials) {
  using Sums = TileSums<Space, V, Term>;
  for_each_team(space, name, tiles.teams(), team_lanes, Sums::scratch_bytes, Sums{tiles, term, partials});
}

/// Channels of a team that adds the tiles up, and lanes that share each of them: 32 bytes side by side, and
/// few rounds of waiting for memory.
inline constexpr int finish_channels = 8;
inline constexpr int finish_lanes = team_lanes / finish_channels;

/// What such a team does: total of add(row block, channel) over row blocks, for each of its channels.
/// `room`: team_lanes doubles; the totals are its first.
template <class Team, class Add>
KOKKOS_INLINE_FUNCTION void add_blocks(const Team& team, const Tiles& tiles, std::int64_t channels,
                                       double* room, const Add& add) {
  each_lane(team, team_lanes, [&](int lane) {
    const std::int64_t channel = std::int64_t{team.league_rank()} * finish_channels + lane % finish_channels;
    double sum = 0.0;
    if (channel < channels) {
      for (std::int32_t block = lane / finish_channels; block < tiles.row_blocks; block += finish_lanes)
        sum += add(block, channel);
    }
    room[lane] = sum;
  });
  each_lane(team, finish_channels, [&](int lane) {
    double sum = room[lane];
    for (int part = 1; part < finish_lanes; ++part) sum += room[part * finish_channels + lane];
    room[lane] = sum;
  });
}

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
    double* const first = shared<double>(team, 2 * team_lanes);
    double* const second = first + team_lanes;
    add_blocks(team, tiles, channels, first, [&](std::int32_t block, std::int64_t channel) {
      return static_cast<double>(partials[2 * channels * block + channel]);
    });
    add_blocks(team, tiles, channels, second, [&](std::int32_t block, std::int64_t channel) {
      return static_cast<double>(partials[2 * channels * block + channels + channel]);
    });
    each_lane(team, finish_channels, [&](int lane) {
      const std::int64_t channel = std::int64_t{team.league_rank()} * finish_channels + lane;
      if (channel < channels) result(channel, first[lane], second[lane]);
    });
  }
};

template <class Space, class Result>
void finish_sums(const Space& space, const char* name, const Tiles& tiles, std::int64_t channels,
                 const float* partials, const Result& result) {
  using Finish = FinishSums<Space, Result>;
  for_each_team(space, name, (channels + finish_channels - 1) / finish_channels, team_lanes,
                Finish::scratch_bytes, Finish{tiles, channels, partials, result});
}

}  // namespace flotilla::loops
