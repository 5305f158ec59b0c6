// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/norm_passes.hpp"

#include <algorithm>
#include <array>

#include "kernels/cpu/lanes.hpp"

namespace flotilla {

namespace {

/// The channels' values of one block.
template <int L>
struct LaneBlock {
  Row<L> mean, factor, shift;

  LaneBlock(const NormChannels& of, std::int64_t block)
      : mean(load<L>(of.mean + block * L)),
        factor(load<L>(of.factor + block * L)),
        shift(load<L>(of.shift + block * L)) {}
  Row<L> value(Row<L> x) const { return (x - mean) * factor + shift; }
};

template <int L>
void unit_statistics(const ImageLayout& layout, const float* x, double* means, double* squares) {
  std::array<double, L> mean{};
  std::array<double, L> square{};
  for_each_piece<L>(layout, [&](std::int64_t begin, std::int64_t end) {
    RowSums<L> sums{};
    for_each_row_apart(layout, begin, end,
                       [&](std::int64_t i, std::size_t way) { sums[way] += load<L>(x + i); });
    const Row<L> piece_mean = total<L>(sums) / static_cast<float>(end - begin);
    RowSums<L> square_sums{};
    for_each_row_apart(layout, begin, end, [&](std::int64_t i, std::size_t way) {
      const Row<L> difference = load<L>(x + i) - piece_mean;
      square_sums[way] += difference * difference;
    });
    const std::array<float, L> piece_means = values_of<L>(piece_mean);
    const std::array<float, L> piece_squares = values_of<L>(total<L>(square_sums));
    // Chan, Golub & LeVeque 1979: joins the piece to the pixels before it.
    const auto before = static_cast<double>(begin);
    const double weight = static_cast<double>(end - begin) / static_cast<double>(end);
    for (std::size_t l = 0; l < L; ++l) {
      const double difference = double{piece_means[l]} - mean[l];
      mean[l] += difference * weight;
      square[l] += double{piece_squares[l]} + difference * difference * before * weight;
    }
  });
  std::copy(mean.begin(), mean.end(), means);
  std::copy(square.begin(), square.end(), squares);
}

template <int L, AfterNorm A, bool More>
void unit_gradient_sums(const ImageLayout& layout, std::int64_t offset, const NormGradient<float>& in,
                        const LaneBlock<L>& of, float* dresidual, double* products, double* sums) {
  std::array<double, L> product{};
  std::array<double, L> sum{};
  for_each_piece<L>(layout, [&](std::int64_t begin, std::int64_t end) {
    RowSums<L> product_sums{};
    RowSums<L> dz_sums{};
    for_each_row_apart(layout, begin, end, [&](std::int64_t at, std::size_t way) {
      const std::int64_t i = offset + at;
      const Row<L> x = load<L>(in.x + i);
      Row<L> dz = load<L>(in.dy + i);
      if constexpr (More) dz += load<L>(in.more_dy + i);
      if constexpr (A == AfterNorm::relu) dz = of.value(x) > 0.0F ? dz : Row<L>{};
      if constexpr (A == AfterNorm::add_relu) {
        dz = load<L>(in.y + i) > 0.0F ? dz : Row<L>{};
        store<L>(dz, dresidual + i);
      }
      product_sums[way] += dz * (x - of.mean);
      dz_sums[way] += dz;
    });
    const std::array<float, L> piece_products = values_of<L>(total<L>(product_sums));
    const std::array<float, L> piece_sums = values_of<L>(total<L>(dz_sums));
    for (std::size_t l = 0; l < L; ++l) {
      product[l] += double{piece_products[l]};
      sum[l] += double{piece_sums[l]};
    }
  });
  std::copy(product.begin(), product.end(), products);
  std::copy(sum.begin(), sum.end(), sums);
}

}  // namespace

template <>
void image_statistics(int threads, const ImageLayout& layout, BlockRange blocks, const float* x,
                      ImageSums sums) {
  with_lanes(layout, [&]<int L>(LaneCount<L>) {
    for_each_unit(threads, layout, blocks, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
      const std::int64_t at = image * layout.channels + block * L;
      unit_statistics<L>(layout, x + offset, sums.first + at, sums.second + at);
    });
  });
}

template <>
void normalise_pixels(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                      const float* x, const float* residual, const NormChannels& of, float* y) {
  with_after(after, [&]<AfterNorm A>(Then<A>) {
    with_stores(layout, [&]<int L, bool Past>(Stores<L, Past>) {
      for_each_unit(threads, layout, blocks, [&](std::int64_t, std::int64_t block, std::int64_t offset) {
        const LaneBlock<L> channels(of, block);
        for_each_row<L>(layout, [&](std::int64_t at) {
          const std::int64_t i = offset + at;
          Row<L> z = channels.value(load<L>(x + i));
          if constexpr (A == AfterNorm::add_relu) z += load<L>(residual + i);
          if constexpr (A != AfterNorm::nothing) z = z < 0.0F ? Row<L>{} : z;  // NaN stays NaN
          store<L, Past>(z, y + i);
        });
      });
    });
  });
}

template <>
void image_gradient_sums(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                         const NormGradient<float>& in, const NormChannels& of, float* dresidual,
                         ImageSums sums) {
  with_after(after, [&]<AfterNorm A>(Then<A>) {
    with_lanes(layout, [&]<int L>(LaneCount<L>) {
      for_each_unit(threads, layout, blocks,
                    [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
                      const std::int64_t at = image * layout.channels + block * L;
                      const LaneBlock<L> channels(of, block);
                      if (A == AfterNorm::add_relu && in.more_dy != nullptr) {
                        unit_gradient_sums<L, A, true>(layout, offset, in, channels, dresidual,
                                                       sums.first + at, sums.second + at);
                      } else {
                        unit_gradient_sums<L, A, false>(layout, offset, in, channels, dresidual,
                                                        sums.first + at, sums.second + at);
                      }
                    });
    });
  });
}

template <>
void normalise_backward(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                        const float* x, const float* dy, const NormChannels& of, const float* constant,
                        const float* slope, float* dx) {
  with_after(after, [&]<AfterNorm A>(Then<A>) {
    with_stores(layout, [&]<int L, bool Past>(Stores<L, Past>) {
      for_each_unit(threads, layout, blocks, [&](std::int64_t, std::int64_t block, std::int64_t offset) {
        const LaneBlock<L> channels(of, block);
        const Row<L> constants = load<L>(constant + block * L);
        const Row<L> slopes = load<L>(slope + block * L);
        for_each_row<L>(layout, [&](std::int64_t at) {
          const std::int64_t i = offset + at;
          const Row<L> value = load<L>(x + i);
          Row<L> dz = load<L>(dy + i);
          if constexpr (A == AfterNorm::relu) dz = channels.value(value) > 0.0F ? dz : Row<L>{};
          store<L, Past>(channels.factor * (dz - constants - (value - channels.mean) * slopes), dx + i);
        });
      });
    });
  });
}

}  // namespace flotilla
