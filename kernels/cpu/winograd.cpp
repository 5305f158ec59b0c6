// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/winograd.hpp"

#include <omp.h>

#include <array>

#include "kernels/cpu/winograd_tiles.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

using Direction = WinogradConv2d::Direction;
using winograd::channel_rows;
using winograd::kernel_values;
using winograd::points;
using winograd::tile;
using winograd::tile_rows;
using winograd::TileChunk;
using winograd::vector_lanes;
using winograd::Vectors;
using winograd::WeightPanels;
using winograd::window;

/// What a pass costs, in multiplications of the direct algorithm: for each tile and pair of channels, for
/// each tile and channel of the input or the output, and for each pair of channels.
struct Costs {
  double product = 0.0;
  double pixels = 0.0;
  double weights = 0.0;
};
/// The costs for 8 lanes, then for 16, by pass, as tests/bench/winograd_costs_bench.cpp printed them for one
/// thread (oneDNN 2.6.3, Sapphire Rapids, AVX2 and AVX-512). In none of its 360 cases did they choose an
/// algorithm that was slower by more than 5 %.
constexpr std::array<std::array<Costs, 3>, 2> costs_of{{
    {{{.product = 52, .pixels = 145, .weights = 503},
      {.product = 51, .pixels = 293, .weights = 375},
      {.product = 50, .pixels = 500, .weights = 441}}},
    {{{.product = 55, .pixels = 231, .weights = 649},
      {.product = 55, .pixels = 250, .weights = 453},
      {.product = 48, .pixels = 346, .weights = 536}}},
}};

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Tiles that one thread transforms, multiplies and transforms back: few where the weights stay in its second
/// cache, more where each chunk reads them from a slower one. The chunks are of about one size, in whole
/// groups of the tiles that a product keeps in registers.
template <int L>
std::int64_t chunk_of(const Direction& d, std::int64_t threads) {
  constexpr std::int64_t cache = std::int64_t{1} << 18;      // floats
  constexpr std::int64_t workspace = std::int64_t{1} << 21;  // floats for each thread
  constexpr std::int64_t rows = tile_rows<vector_lanes<L>>;
  const std::int64_t wanted = points * d.in_channels * d.out_channels <= cache ? 24 : 96;
  const std::int64_t largest =
      std::max<std::int64_t>(workspace / (points * (d.in_channels + d.out_channels)), 24);
  const std::int64_t chunks = divided_up(divided_up(d.tiles(), std::min(wanted, largest)), threads) * threads;
  const std::int64_t even = divided_up(d.tiles(), chunks);
  const bool many = chunks >= 4 * threads;  // Uneven ends do not matter.
  return many ? divided_up(even, rows) * rows : even;
}

/// Tiles that all threads transform together, for gradients of weights.
std::int64_t common_chunk_of(const Direction& d) {
  constexpr std::int64_t workspace = std::int64_t{1} << 19;  // floats
  const std::int64_t largest =
      std::max<std::int64_t>(workspace / (points * (d.in_channels + d.out_channels)), 32);
  return divided_up(d.tiles(), divided_up(d.tiles(), largest));
}

template <int L>
WeightPanels panels_of(const Direction& d, float* values) {
  return {d.in_channels, d.out_channels, vector_lanes<L>, values};
}

/// Calls run with the number of lanes as a type, of which images in blocks have 8 or 16.
template <class Run>
void with_blocks(std::int64_t lanes, const Run& run) {
  if (lanes == 16) return run(LaneCount<16>{});
  run(LaneCount<8>{});
}

/// The place of a tile: its image, and its first row and column among the outputs. Divisions of 32 bits take
/// half of the time of those of 64, and there are some for each tile and block.
struct Place {
  Place(const Direction& d, std::int64_t number) {
    const auto n = static_cast<std::uint32_t>(number);
    const auto columns = static_cast<std::uint32_t>(d.tile_columns());
    const auto rows = static_cast<std::uint32_t>(d.tile_rows());
    const std::uint32_t line = n / columns;
    image = line / rows;
    row = (line - line / rows * rows) * tile;
    column = (n - line * columns) * tile;
  }
  std::int64_t image, row, column;
};

/// Count x Count pixels of one vector of lanes from (row, column) on, zero outside of the image.
template <int L, int V, int Count>
inline void load_pixels(const float* image, std::int64_t rows, std::int64_t columns, std::int64_t row,
                        std::int64_t column, Row<V>* to) {
  if (row >= 0 && column >= 0 && row + Count <= rows && column + Count <= columns) {
    for (int i = 0; i < Count; ++i) {
      for (int j = 0; j < Count; ++j)
        to[i * Count + j] = load<V>(image + ((row + i) * columns + column + j) * L);
    }
    return;
  }
  for (int i = 0; i < Count; ++i) {
    const std::int64_t y = row + i;
    for (int j = 0; j < Count; ++j) {
      const std::int64_t x = column + j;
      const bool inside = y >= 0 && y < rows && x >= 0 && x < columns;
      to[i * Count + j] = inside ? load<V>(image + (y * columns + x) * L) : Row<V>{};
    }
  }
}

/// Bᵀ x B of the inputs of tile t of a chunk, all lanes of a block.
template <int L>
void transform_inputs(const Direction& d, const float* x, const TileChunk& to, std::int64_t block,
                      std::int64_t t) {
  constexpr int width = vector_lanes<L>;
  const Place place(d, to.first + t);
  const float* const image = x + (place.image * d.in_channels / L + block) * d.in_rows * d.in_columns * L;
  for (int lane = 0; lane < L; lane += width) {
    Row<width> pixels[window * window];
    load_pixels<L, width, window>(image + lane, d.in_rows, d.in_columns, place.row - d.padding,
                                  place.column - d.padding, pixels);
    winograd::transform_both<window, window>(
        pixels,
        [](const auto* in, std::int64_t stride, auto* out) { winograd::transform_input(in, stride, out); },
        [&](int row, const Row<width>* values) {
          for (int i = 0; i < window; ++i) store<width>(values[i], to.at(row * window + i, block, t) + lane);
        });
  }
}

/// A dy Aᵀ of the gradients of a tile's outputs.
template <int L>
void transform_output_gradients(const Direction& d, const float* dy, const TileChunk& to, std::int64_t block,
                                std::int64_t t) {
  constexpr int width = vector_lanes<L>;
  const Place place(d, to.first + t);
  const float* const image = dy + (place.image * d.out_channels / L + block) * d.out_rows * d.out_columns * L;
  for (int lane = 0; lane < L; lane += width) {
    Row<width> pixels[tile * tile];
    load_pixels<L, width, tile>(image + lane, d.out_rows, d.out_columns, place.row, place.column, pixels);
    winograd::transform_both<tile, window>(
        pixels,
        [](const auto* in, std::int64_t stride, auto* out) {
          winograd::transform_output_gradient(in, stride, out);
        },
        [&](int row, const Row<width>* values) {
          for (int i = 0; i < window; ++i) store<width>(values[i], to.at(row * window + i, block, t) + lane);
        });
  }
}

/// Aᵀ m A of tile t of a chunk, plus the bias, to the image.
template <int L>
void transform_outputs(const Direction& d, const TileChunk& from, std::int64_t block, std::int64_t t,
                       const float* bias, float* y) {
  constexpr int width = vector_lanes<L>;
  const Place place(d, from.first + t);
  float* const image = y + (place.image * d.out_channels / L + block) * d.out_rows * d.out_columns * L;
  const std::int64_t columns = std::min(tile, d.out_columns - place.column);
  for (int lane = 0; lane < L; lane += width) {
    const Row<width> offset = bias == nullptr ? Row<width>{} : load<width>(bias + block * L + lane);
    Row<width> values[points];
    for (int point = 0; point < points; ++point) values[point] = load<width>(from.at(point, block, t) + lane);
    winograd::transform_both<window, tile>(
        values,
        [](const auto* in, std::int64_t stride, auto* out) { winograd::transform_output(in, stride, out); },
        [&](int i, const Row<width>* outputs) {
          if (place.row + i >= d.out_rows) return;
          float* const to = image + ((place.row + i) * d.out_columns + place.column) * L + lane;
          for (std::int64_t j = 0; j < columns; ++j) store<width>(outputs[j] + offset, to + j * L);
        });
  }
}

/// Calls body(block of input channels, block of output channels) for all pairs, each by one thread.
template <int L, class Body>
void for_each_pair(std::int64_t threads, const Direction& d, const Body& body) {
  const std::int64_t in_blocks = d.in_channels / L;
  in_parts(threads, d.out_channels / L * in_blocks, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t pair = first; pair < last; ++pair) body(pair % in_blocks, pair / in_blocks);
  });
}

/// The floats in the weights of a pair of blocks: (kernel value, input channel, output channel).
template <int L>
constexpr std::int64_t pair_weights() {
  return kernel_values * L * L;
}

/// G w Gᵀ of all weights of a pair of blocks.
template <int L>
void transform_pair(const float* weights, std::int64_t in, std::int64_t out, const WeightPanels& u) {
  constexpr int width = vector_lanes<L>;
  for (int i = 0; i < L; ++i) {
    for (int lane = 0; lane < L; lane += width) {
      Row<width> values[kernel_values];
      for (int k = 0; k < kernel_values; ++k) values[k] = load<width>(weights + (k * L + i) * L + lane);
      float* const to = u.at(in * L + i, out * L + lane);
      winograd::transform_both<3, window>(
          values,
          [](const auto* of, std::int64_t by, auto* result) { winograd::transform_weights(of, by, result); },
          [&](int row, const Row<width>* points_of_row) {
            for (int j = 0; j < window; ++j)
              store<width>(points_of_row[j], to + (row * window + j) * u.point_stride());
          });
    }
  }
}

/// Transformed weights of the forward convolution.
template <int L>
void transform_all_weights(std::int64_t threads, const Direction& d, const float* weights,
                           const WeightPanels& u) {
  for_each_pair<L>(threads, d, [&](std::int64_t in, std::int64_t out) {
    transform_pair<L>(weights + (out * d.in_channels / L + in) * pair_weights<L>(), in, out, u);
  });
}

/// Transformed weights of backward_data: input and output channels change places, and rows and columns are
/// taken in the reverse order. `d` is the direction backward.
template <int L>
void transform_all_weights_backward(std::int64_t threads, const Direction& d, const float* weights,
                                    const WeightPanels& u) {
  for_each_pair<L>(threads, d, [&](std::int64_t in, std::int64_t out) {
    const float* const w = weights + (in * d.out_channels / L + out) * pair_weights<L>();
    std::array<float, pair_weights<L>()> turned;
    float* to = turned.data();
    for (int k = kernel_values - 1; k >= 0; --k) {
      for (int i = 0; i < L; ++i) {
        for (int o = 0; o < L; ++o) *to++ = w[(k * L + o) * L + i];
      }
    }
    transform_pair<L>(turned.data(), in, out, u);
  });
}

/// Gᵀ u G of all weights, added to `dw` where `add`.
template <int L>
void transform_all_gradients(std::int64_t threads, const Direction& d, const WeightPanels& u, float* dw,
                             bool add) {
  constexpr int width = vector_lanes<L>;
  for_each_pair<L>(threads, d, [&](std::int64_t in, std::int64_t out) {
    float* const pair = dw + (out * d.in_channels / L + in) * pair_weights<L>();
    for (int i = 0; i < L; ++i) {
      for (int lane = 0; lane < L; lane += width) {
        const float* const from = u.at(in * L + i, out * L + lane);
        float* const to = pair + i * L + lane;
        Row<width> values[points];
        for (int point = 0; point < points; ++point)
          values[point] = load<width>(from + point * u.point_stride());
        winograd::transform_both<window, 3>(
            values,
            [](const auto* of, std::int64_t by, auto* result) {
              winograd::transform_weight_gradient(of, by, result);
            },
            [&](int row, const Row<width>* gradients) {
              for (int j = 0; j < 3; ++j) {
                float* const place = to + (row * 3 + j) * L * L;
                store<width>(add ? load<width>(place) + gradients[j] : gradients[j], place);
              }
            });
      }
    }
  });
}

/// The addresses of the vectors of a panel's output channels in a chunk, at its first tile.
template <int L, class Float>
Vectors<Float> vectors_of(const WeightPanels& u, std::int64_t panel, const TileChunk& chunk,
                          std::int64_t point) {
  Vectors<Float> vectors{};
  for (std::int64_t w = 0; w < u.vectors(panel); ++w) {
    const std::int64_t channel = panel * u.width() + w * u.vector;
    vectors[static_cast<std::size_t>(w)] = chunk.at(point, channel / L, 0) + channel % L;
  }
  return vectors;
}

/// to = the matrix products of all points.
template <int L>
void multiply(const TileChunk& from, const WeightPanels& u, const TileChunk& to) {
  constexpr int width = vector_lanes<L>;
  for (std::int64_t point = 0; point < points; ++point) {
    for (std::int64_t panel = 0; panel < u.panels(); ++panel) {
      const float* const weights = u.panel(panel, point);
      const bool last = panel + 1 == u.panels();
      const float* const following =
          u.panel(last ? 0 : panel + 1, std::min(point + (last ? 1 : 0), points - 1));
      const auto sums = vectors_of<L, float>(u, panel, to, point);
      if (u.vectors(panel) == 2) {
        winograd::multiply_panel<L, width, 2>(from.at(point, 0, 0), from, weights, following - weights, sums);
      } else {
        winograd::multiply_panel<L, width, 1>(from.at(point, 0, 0), from, weights, following - weights, sums);
      }
    }
  }
}

/// y = the convolution of x by transformed weights, plus the bias. Threads take chunks as they are free: the
/// values do not depend on the thread that computes them. The workspace begins behind the weights.
template <int L>
void convolve(int threads, const Direction& d, const float* x, const WeightPanels& u, const float* bias,
              float* y) {
  const std::int64_t chunk = chunk_of<L>(d, threads);
  const TileChunk inputs{chunk, L, d.in_channels / L};
  const TileChunk outputs{chunk, L, d.out_channels / L};
  const std::int64_t chunks = divided_up(d.tiles(), chunk);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t number = 0; number < chunks; ++number) {
    TileChunk in = inputs;
    TileChunk out = outputs;
    in.values = u.values + u.floats() + omp_get_thread_num() * (in.floats() + out.floats());
    out.values = in.values + in.floats();
    in.first = out.first = number * chunk;
    in.count = out.count = std::min(chunk, d.tiles() - in.first);
    for (std::int64_t block = 0; block < in.blocks; ++block) {
      for (std::int64_t t = 0; t < in.count; ++t) transform_inputs<L>(d, x, in, block, t);
    }
    multiply<L>(in, u, out);
    for (std::int64_t block = 0; block < out.blocks; ++block) {
      for (std::int64_t t = 0; t < out.count; ++t) transform_outputs<L>(d, out, block, t, bias, y);
    }
  }
}

/// u = the products of a chunk's inputs and gradients, summed over its tiles, added to u where `add`.
template <int L>
void multiply_gradients(std::int64_t threads, const TileChunk& in, const TileChunk& gradients,
                        const WeightPanels& u, bool add) {
  constexpr int width = vector_lanes<L>;
  in_parts(threads, points * u.panels(), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t panel = i / points;
      const std::int64_t point = i % points;
      const auto vectors = vectors_of<L, const float>(u, panel, gradients, point);
      for (std::int64_t c = 0; c < u.in_channels; c += channel_rows<width>) {
        const float* const values = in.at(point, c / L, 0) + c % L;
        float* const to = u.panel(panel, point) + c * u.width();
        if (u.vectors(panel) == 2) {
          winograd::multiply_channels<L, width, 2>(in.count, values, vectors, to, add);
        } else {
          winograd::multiply_channels<L, width, 1>(in.count, values, vectors, to, add);
        }
      }
    }
  });
}

/// db (+)= the sums of the gradients of a chunk: the sum of a tile is its point (1, 1).
template <int L>
void add_bias_gradients(const TileChunk& gradients, float* db, bool add) {
  constexpr std::int64_t sum_point = window + 1;
  for (std::int64_t block = 0; block < gradients.blocks; ++block) {
    float* const to = db + block * L;
    Row<L> sum = add ? load<L>(to) : Row<L>{};
    for (std::int64_t t = 0; t < gradients.count; ++t) sum += load<L>(gradients.at(sum_point, block, t));
    store<L>(sum, to);
  }
}

}  // namespace

std::int64_t WinogradConv2d::Direction::tile_rows() const {
  return divided_up(out_rows, tile);
}

std::int64_t WinogradConv2d::Direction::tile_columns() const {
  return divided_up(out_columns, tile);
}

bool WinogradConv2d::applies(const Conv2dSpec& spec, const ImageLayout& source,
                             const ImageLayout& destination) {
  const bool blocks = source.tag == destination.tag && source.pixel_stride == source.lanes &&
                      (source.lanes == 8 || source.lanes == 16) && destination.lanes == source.lanes;
  return blocks && spec.kernel == 3 && spec.stride == 1 && spec.groups == 1 && spec.padding <= 2;
}

bool WinogradConv2d::pays(const Conv2dSpec& spec, ConvolutionPass pass, std::int64_t lanes) {
  const Shape output = output_shape(spec);
  const auto in = static_cast<double>(spec.input[1]);
  const auto out = static_cast<double>(output[1]);
  const auto tiles =
      static_cast<double>(output[0] * divided_up(output[2], tile) * divided_up(output[3], tile));
  const Costs& costs = costs_of[lanes == 16 ? 1 : 0][static_cast<std::size_t>(pass)];
  const double time =
      tiles * in * out * costs.product + tiles * (in + out) * costs.pixels + in * out * costs.weights;
  return time < static_cast<double>(flops(spec)) / 2;
}

dnnl::memory::desc WinogradConv2d::weights(const Conv2dSpec& spec, std::int64_t lanes) {
  using Tag = dnnl::memory::format_tag;
  return {{spec.out_channels, spec.input[1], spec.kernel, spec.kernel},
          dnnl::memory::data_type::f32,
          lanes == 16 ? Tag::OIhw16i16o : Tag::OIhw8i8o};
}

WinogradConv2d::WinogradConv2d(std::shared_ptr<PrimitiveScope> scope, const Conv2dSpec& spec,
                               std::int64_t lanes)
    : scope_(std::move(scope)), lanes_(lanes), accumulate_(spec.accumulate) {
  const Shape output = output_shape(spec);
  const Shape& input = spec.input;
  forward_ = {input[0], input[1], input[2], input[3], output[1], output[2], output[3], spec.padding};
  backward_ = {input[0], output[1], output[2], output[3], input[1], input[2], input[3], 2 - spec.padding};
  with_blocks(lanes, [&]<int L>(LaneCount<L>) {
    const auto floats_of = [](const Direction& d, std::int64_t chunks, std::int64_t capacity) {
      return panels_of<L>(d, nullptr).floats() +
             chunks * (TileChunk{capacity, L, d.in_channels / L}.floats() +
                       TileChunk{capacity, L, d.out_channels / L}.floats());
    };
    const int threads = scope_->threads();
    const std::int64_t floats = std::max({floats_of(forward_, threads, chunk_of<L>(forward_, threads)),
                                          floats_of(backward_, threads, chunk_of<L>(backward_, threads)),
                                          floats_of(forward_, 1, common_chunk_of(forward_))});
    scope_->reserve(static_cast<std::size_t>(floats) * sizeof(float));
  });
}

void WinogradConv2d::forward(const float* x, const float* weights, const float* bias, float* y) const {
  with_blocks(lanes_, [&]<int L>(LaneCount<L>) {
    const WeightPanels u = panels_of<L>(forward_, scratch());
    transform_all_weights<L>(scope_->threads(), forward_, weights, u);
    convolve<L>(scope_->threads(), forward_, x, u, bias, y);
  });
}

void WinogradConv2d::backward_data(const float* dy, const float* weights, float* dx) const {
  with_blocks(lanes_, [&]<int L>(LaneCount<L>) {
    const WeightPanels u = panels_of<L>(backward_, scratch());
    transform_all_weights_backward<L>(scope_->threads(), backward_, weights, u);
    convolve<L>(scope_->threads(), backward_, dy, u, nullptr, dx);
  });
}

void WinogradConv2d::backward_weights(const float* x, const float* dy, float* dw, float* db) const {
  with_blocks(lanes_, [&]<int L>(LaneCount<L>) {
    const Direction& d = forward_;
    const int threads = scope_->threads();
    const WeightPanels u = panels_of<L>(d, scratch());
    TileChunk in{common_chunk_of(d), L, d.in_channels / L, u.values + u.floats()};
    TileChunk gradients{in.capacity, L, d.out_channels / L, in.values + in.floats()};
    for (std::int64_t first = 0; first < d.tiles(); first += in.capacity) {
      in.first = gradients.first = first;
      in.count = gradients.count = std::min(in.capacity, d.tiles() - first);
      in_parts(threads, (in.blocks + gradients.blocks) * in.count, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t block = i / in.count;
          if (block < in.blocks) {
            transform_inputs<L>(d, x, in, block, i % in.count);
          } else {
            transform_output_gradients<L>(d, dy, gradients, block - in.blocks, i % in.count);
          }
        }
      });
      multiply_gradients<L>(threads, in, gradients, u, first > 0);
      if (db != nullptr) add_bias_gradients<L>(gradients, db, accumulate_ || first > 0);
    }
    transform_all_gradients<L>(threads, d, u, dw, accumulate_);
  });
}

}  // namespace flotilla
