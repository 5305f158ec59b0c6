// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "kernels/gpu/loops/kokkos_scope.hpp"
#include "kernels/gpu/loops/loop_tensors.hpp"
#include "kernels/half_rounding.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/reference/loops.hpp"
#include "tests/kernels/loops_device.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::all_precisions;
using test::values;

/// Values of a precision in memory of the host.
class Held {
 public:
  /// Filled with 99.
  Held(Precision precision, std::int64_t size)
      : precision_(precision), size_(size), storage_(HostMemory().allocate(floats_of(size, precision))) {
    write(std::vector<float>(static_cast<std::size_t>(size), 99.0F));
  }
  Held(Precision precision, const std::vector<float>& from)
      : Held(precision, static_cast<std::int64_t>(from.size())) {
    write(from);
  }
  Values values() { return {storage_.span().address(), size_, precision_}; }

  std::vector<float> read() {
    std::vector<float> result(static_cast<std::size_t>(size_));
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (precision_ == Precision::float32) result[i] = storage_.span().address()[i];
      if (precision_ == Precision::float16) result[i] = half::float_of_float16(bits()[i]);
      if (precision_ == Precision::bfloat16) result[i] = half::float_of_bfloat16(bits()[i]);
    }
    return result;
  }

 private:
  void write(const std::vector<float>& from) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (precision_ == Precision::float32) storage_.span().address()[i] = from[i];
      if (precision_ == Precision::float16) bits()[i] = half::float16_of(from[i]);
      if (precision_ == Precision::bfloat16) bits()[i] = half::bfloat16_of(from[i]);
    }
  }
  std::uint16_t* bits() { return reinterpret_cast<std::uint16_t*>(storage_.span().address()); }

  Precision precision_;
  std::int64_t size_;
  Storage storage_;
};

TEST(LoopsCast, RoundsAndScalesAndAddsBetweenAllPrecisions) {
  const auto loops = test::serial_loops();
  for (const Precision from : all_precisions) {
    for (const Precision to : all_precisions) {
      for (const std::int64_t size : {1, 4, 7, 1000}) {
        const std::vector<float> inputs = test::rounded(from, values(size, 1));
        const std::vector<float> before = test::rounded(to, values(size, 2));
        Held source(from, inputs);
        Held written(to, size);
        Held added(to, before);

        loops->passes().cast(source.values(), written.values(), {.factor = 0.3F});
        loops->passes().cast(source.values(), added.values(), {.factor = 0.5F, .add = true});

        std::vector<float> scaled = inputs;
        std::vector<float> sums = inputs;
        for (float& value : scaled) value *= 0.3F;
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = 0.5F * inputs[i] + before[i];
        EXPECT_EQ(written.read(), test::rounded(to, scaled));
        EXPECT_EQ(added.read(), test::rounded(to, sums));
      }
    }
  }
}

TEST(LoopsCast, GathersFromPlaces) {
  const auto loops = test::serial_loops();
  Held plain(Precision::float32, {1, 2, 3, 4, 5, 6});
  Held padded(Precision::float16, 8);
  Held back(Precision::float32, {10, 10, 10, 10, 10, 10});
  const std::vector<std::int32_t> to_padded = {0, 1, 2, -1, 3, 4, 5, -1};
  const std::vector<std::int32_t> to_plain = {0, 1, 2, 4, 5, 6};

  loops->passes().gather({to_padded.data(), to_padded.size()}, plain.values(), padded.values(),
                         {.factor = 2.0F});
  loops->passes().gather({to_plain.data(), to_plain.size()}, padded.values(), back.values(), {.add = true});

  EXPECT_EQ(padded.read(), (std::vector<float>{2, 4, 6, 0, 8, 10, 12, 0}));
  EXPECT_EQ(back.read(), (std::vector<float>{12, 14, 16, 18, 20, 22}));
}

TEST(LoopsCast, LaysImagesOutWithPaddedChannels) {
  const auto loops = test::serial_loops();
  const Shape shape{2, 3, 2, 2};
  std::vector<float> inputs(24);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i);
  for (const Precision precision : all_precisions) {
    for (const std::int64_t channels : {3, 4, 8}) {
      Held nchw(Precision::float32, inputs);
      Held nhwc(precision, 8 * channels);
      Held back(Precision::float32, 24);

      loops->passes().to_nhwc(shape, {channels}, nchw.values(), nhwc.values());
      loops->passes().from_nhwc(shape, channels, nhwc.values(), back.values());

      const std::vector<float> laid_out = nhwc.read();
      for (std::int64_t pixel = 0; pixel < 8; ++pixel) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto image = pixel / 4;
          const float expected = c < 3 ? static_cast<float>((image * 3 + c) * 4 + pixel % 4) : 0.0F;
          EXPECT_EQ(laid_out[static_cast<std::size_t>(pixel * channels + c)], expected) << channels;
        }
      }
      EXPECT_EQ(back.read(), inputs);
    }
  }
}

TEST(LoopsCast, NormalisesBytes) {
  const auto loops = test::serial_loops();
  const Shape shape{1, 3, 1, 2};
  const std::vector<std::uint8_t> bytes = {0, 128, 255, 10, 20, 30};
  const ByteScaling scaling{.factor = {0.5F, 2.0F, 1.0F, 0.0F}, .offset = {1.0F, -256.0F, 0.0F, 0.0F}};
  for (const std::int64_t channels : {3, 4, 8}) {
    Held images(Precision::float16, 2 * channels);

    loops->passes().from_bytes(shape, {channels}, {bytes.data(), bytes.size()}, scaling, images.values());

    std::vector<float> expected(static_cast<std::size_t>(2 * channels), 0.0F);
    const std::vector<float> of_pixels = {1, 0, 255, 6, -216, 30};
    for (std::size_t i = 0; i < 6; ++i)
      expected[i / 3 * static_cast<std::size_t>(channels) + i % 3] = of_pixels[i];
    EXPECT_EQ(images.read(), expected) << channels;
  }
}

/// A folded image by its definition.
std::vector<float> folded(const Shape& shape, const ImageForm& form, const std::vector<float>& nchw) {
  std::vector<float> made;
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t r = 0; r < form.rows; ++r)
      for (std::int64_t c = 0; c < form.columns; ++c)
        for (std::int64_t q = 0; q < 16; ++q) {
          const std::int64_t row = 2 * r + q / 8 - form.padding;
          const std::int64_t column = 2 * c + q / 4 % 2 - form.padding;
          const bool there =
              row >= 0 && row < shape[2] && column >= 0 && column < shape[3] && q % 4 < shape[1];
          const std::int64_t place = ((n * shape[1] + q % 4) * shape[2] + row) * shape[3] + column;
          made.push_back(there ? nchw[static_cast<std::size_t>(place)] : 0.0F);
        }
  return made;
}

TEST(LoopsCast, FoldsImages) {
  const auto loops = test::serial_loops();
  for (const Precision precision : all_precisions) {
    for (const std::int64_t channels : {1, 2, 3, 4}) {
      for (const std::int64_t padding : {0, 1, 2, 3}) {
        const Shape shape{2, channels, 5, 6};
        const ImageForm form{.channels = 16, .rows = 4, .columns = 6, .padding = padding};
        std::vector<float> inputs(static_cast<std::size_t>(shape.size()));
        std::vector<std::uint8_t> bytes(inputs.size());
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          bytes[i] = static_cast<std::uint8_t>(i + 1);
          const auto c = i % static_cast<std::size_t>(channels);
          const auto pixel = i / static_cast<std::size_t>(channels);
          inputs[(pixel / 30 * static_cast<std::size_t>(channels) + c) * 30 + pixel % 30] =
              static_cast<float>(i + 1);
        }
        Held nchw(Precision::float32, inputs);
        Held from_values(precision, form.size(shape));
        Held from_bytes(precision, form.size(shape));

        loops->passes().to_nhwc(shape, form, nchw.values(), from_values.values());
        loops->passes().from_bytes(shape, form, {bytes.data(), bytes.size()},
                                   {.factor = {1, 1, 1, 1}, .offset = {}}, from_bytes.values());

        const std::vector<float> expected = folded(shape, form, inputs);
        EXPECT_EQ(from_values.read(), expected) << channels << " " << padding;
        EXPECT_EQ(from_bytes.read(), expected) << channels << " " << padding;
      }
    }
  }
}

TEST(LoopsActivation, AgreesWithTheReferenceAndSumsBiasGradients) {
  const auto loops = test::serial_loops();
  for (const Precision precision : all_precisions) {
    for (const Activation f : activations_of_value) {
      for (const std::int64_t channels : {1, 5, 64, 1000}) {
        const std::int64_t rows = 37;
        const double stored = test::stored_apart(precision);
        const std::vector<float> inputs = test::rounded(precision, values(rows * channels, 1, 2.0));
        const std::vector<float> gradients = test::rounded(precision, values(rows * channels, 2));
        const std::vector<float> biases = values(channels, 3);
        Held bias(Precision::float32, biases);
        Held x(precision, inputs);
        Held dy(precision, gradients);
        Held db(Precision::float32, std::vector<float>(biases.size(), 1.0F));

        loops->passes().bias_activation(
            f, channels, {static_cast<float*>(bias.values().address), biases.size()}, x.values());
        loops->passes().bias_activation_backward(f, channels, x.values(), dy.values(),
                                                 {static_cast<float*>(db.values().address), biases.size()},
                                                 true);

        const std::vector<float> y = x.read();
        std::vector<float> expected_y(y.size());
        std::vector<float> expected_dy(y.size());
        std::vector<float> expected_db(biases.size(), 1.0F);
        for (std::size_t i = 0; i < y.size(); ++i) {
          const std::size_t c = i % biases.size();
          const double z = double{inputs[i]} + double{biases[c]};
          expected_y[i] = static_cast<float>(reference::activation_value(f, z));
          const double slope = reference::activation_slope(f, double{y[i]});
          expected_dy[i] = static_cast<float>(double{gradients[i]} * slope);
          expected_db[c] += expected_dy[i];
        }
        const std::string where = cat(channels, " ", static_cast<int>(f), " ", static_cast<int>(precision));
        EXPECT_TRUE(test::within(test::largest_difference(y, expected_y), 0.0, 1e-6 + 3.0 * stored)) << where;
        EXPECT_TRUE(test::within(test::largest_difference(dy.read(), expected_dy), 0.0, 1e-6 + stored))
            << where;
        EXPECT_TRUE(test::within(test::largest_difference(db.read(), expected_db), 0.0, 37 * 1e-6)) << where;
      }
    }
  }
}

TEST(LoopsActivation, GivesTheSameBitsInAnyOrderOfLanes) {
  const auto loops = test::serial_loops();
  for (const std::int64_t channels : {5, 64}) {
    test::expect_equal_in_any_order([&] {
      Held y(Precision::bfloat16, values(300 * channels, 1));
      Held dy(Precision::bfloat16, values(300 * channels, 2));
      Held db(Precision::float32, channels);
      loops->passes().bias_activation_backward(
          Activation::tanh, channels, y.values(), dy.values(),
          {static_cast<float*>(db.values().address), static_cast<std::size_t>(channels)}, false);
      return std::pair(dy.read(), db.read());
    });
  }
}

TEST(LoopsOverflowGuard, FindsEveryValueThatIsNotFinite) {
  const auto loops = test::serial_loops();
  const HostMemory memory;
  const auto guard = loops->overflow_guard(memory, {});
  guard->begin({}, 0);
  Storage report = memory.allocate(report_floats);
  const auto held = [&](const std::vector<float>& values) {
    Storage made = memory.allocate(values.size());
    memory.upload(values, made.span());
    return made;
  };
  for (const std::size_t place : {std::size_t{0}, std::size_t{4095}, std::size_t{9998}}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(9999, -65504.0F);
      const Storage good = held(x);
      x[place] = bad;
      const Storage with = held(x);

      EXPECT_EQ(guard->check(good.span(), 0.1F, 1.0, report.span())->taken, 1.0F);
      EXPECT_EQ(guard->check(with.span(), 0.1F, 1.0, report.span())->taken, 0.0F) << place;
    }
  }
}

TEST(KokkosScope, MayBeMadeOnceAtATime) {
  test::serial_loops();

  EXPECT_EQ(std::ranges::count(kokkos_version(), '.'), 2) << kokkos_version();
  EXPECT_THROW(KokkosScope(), InternalError);
}

TEST(DeviceLoops, RefuseSizesThatDoNotFit) {
  const auto loops = test::serial_loops();
  Held four(Precision::float32, 4);
  Held five(Precision::float32, 5);
  Held halves(Precision::float16, 4);
  Values shifted = five.values();
  shifted.address = static_cast<float*>(shifted.address) + 1;
  shifted.size = 4;
  const auto device = test::loops_device();
  Tensor small = device->images().tensor({1, 8, 1, 1});
  const Tensor large = device->images().tensor({1, 8, 1, 2});

  EXPECT_THROW(loops->passes().cast(four.values(), five.values(), {}), InternalError);
  EXPECT_THROW(loops->passes().cast(shifted, four.values(), {}), InternalError);
  EXPECT_THROW(loops->passes().bias_activation_backward(Activation::relu, 2, halves.values(), four.values(),
                                                        {}, false),
               InternalError);
  EXPECT_THROW(loops->passes().bias_activation(Activation::relu, 3, {}, four.values()), InternalError);
  EXPECT_THROW(device->images().add_relu(small, large, small), InternalError);
  EXPECT_THROW(device->images().add_relu_backward(large, small, small), InternalError);
  EXPECT_THROW(loops->passes().to_nhwc({1, 4, 1, 1}, {3}, four.values(), four.values()), InternalError);
  EXPECT_THROW(loops->passes().to_nhwc({1, 5, 1, 1}, {.channels = 16, .rows = 1, .columns = 1}, five.values(),
                                       Held(Precision::float32, 16).values()),
               InternalError);
  const std::vector<std::int32_t> places(4);
  EXPECT_THROW(loops->passes().gather({places.data(), 4}, four.values(), five.values(), {}), InternalError);
}

}  // namespace
}  // namespace flotilla
