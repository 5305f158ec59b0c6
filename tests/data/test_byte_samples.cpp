// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "src/data/images/image_transform.hpp"
#include "src/data/loader.hpp"
#include "tests/data/byte_samples.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/temporary_folder.hpp"

// Samples that are sent as bytes and scaled by the receiver have the bits of those that are sent as floats.

namespace flotilla {
namespace {

/// Three images of different kinds, in no list.
std::vector<test::Bytes> files() {
  return {test::jpeg(test::busy(150, 97)), test::png(test::pattern(60, 200)),
          test::jpeg(test::busy(33, 40, 1), {.colours = test::JpegForm::grey, .orientation = 6})};
}

void expect_same_bits(const ImageTransform& transform) {
  const Shape shape = transform.sample_shape();
  const auto size = static_cast<std::size_t>(shape.size());
  for (const test::Bytes& file : files()) {
    for (std::uint64_t variation = 0; variation < 10; ++variation) {
      std::vector<float> floats(size);
      std::vector<std::uint8_t> bytes(size + 1, 77);

      transform.apply(test::file_of(file), variation, floats);
      transform.apply_bytes(test::file_of(file), variation, std::span(bytes).first(size));

      ASSERT_EQ(test::scaled({.pixels = std::span(bytes).first(size),
                              .shape = {1, shape[0], shape[1], shape[2]},
                              .scaling = transform.scaling().value()}),
                floats);
      EXPECT_EQ(bytes.back(), 77) << "something was written behind the sample";
    }
  }
}

TEST(ByteSamples, OfImagesHaveTheBitsOfFloats) {
  for (const std::int64_t side : {1, 5, 16, 21, 64}) {  // whole vectors of pixels, and not
    const ImageTransformSpec spec{.size = side,
                                  .short_side = side + 3,
                                  .filter = ResizeFilter::antialias,
                                  .exif_orientation = side == 21};
    expect_same_bits(*make_training_transform(spec));
    expect_same_bits(*make_validation_transform(spec));
  }
}

TEST(ByteSamples, AreThereOnlyWhereNothingButScalingIsLeft) {
  constexpr ImageTransformSpec whole{.filter = ResizeFilter::antialias};
  constexpr ImageTransformSpec between{.filter = ResizeFilter::bilinear};
  constexpr ImageTransformSpec jitter{.filter = ResizeFilter::antialias, .jitter = {.contrast = 0.1}};

  EXPECT_TRUE(make_training_transform(whole)->scaling());
  EXPECT_FALSE(make_training_transform(between)->scaling());
  EXPECT_FALSE(make_training_transform(jitter)->scaling());
  EXPECT_TRUE(make_validation_transform(jitter)->scaling());
  EXPECT_FALSE(make_validation_transform(between)->scaling());

  std::vector<std::uint8_t> bytes(3 * 224 * 224);
  const test::Bytes file = test::png(test::pattern(10, 10));
  EXPECT_THROW(make_training_transform(between)->apply_bytes(test::file_of(file), 0, bytes), InternalError);
  EXPECT_THROW(make_training_transform(jitter)->apply_bytes(test::file_of(file), 0, bytes), InternalError);
}

/// 40 images of digits, whose loaders hand out bytes.
class ByteBatches : public ::testing::Test {
 protected:
  void SetUp() override {
    test::save(folder.path("images"), test::images(40, 5, 7));
    test::save(folder.path("labels"), test::labels(40, 10));
    data = open_dataset({}, test::idx_source(folder.path("images"), folder.path("labels")), 10, 1);
  }
  static LoaderOptions options(std::int64_t threads, bool bytes) {
    return {.threads = threads, .prefetch = 2, .sink = {}, .replace_bad = true, .bytes = bytes};
  }
  test::TemporaryFolder folder;
  std::unique_ptr<Dataset> data;
};

/// What the network sees of a batch, without padding.
std::vector<float> seen(const Batch& batch) {
  const std::vector<float> values = batch.bytes.pixels.empty()
                                        ? std::vector<float>(batch.images.begin(), batch.images.end())
                                        : test::scaled(batch.bytes);
  const std::size_t row = values.size() / batch.labels.size();
  return {values.begin(),
          values.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(batch.valid))};
}

TEST_F(ByteBatches, HaveTheBitsOfFloats) {
  const Sampler sampler(3, {.samples = 40, .workers = 2, .batch = 8});
  for (const std::int64_t threads : {0, 1, 3}) {
    const auto floats = make_training_loader(*data, sampler, 1, {}, options(threads, false));
    const auto bytes = make_training_loader(*data, sampler, 1, {}, options(threads, true));
    for (int i = 0; i < 7; ++i) {
      const Batch& expected = floats->next();
      const Batch& batch = bytes->next();

      ASSERT_TRUE(batch.images.empty());
      ASSERT_TRUE(expected.bytes.pixels.empty());
      EXPECT_EQ(batch.bytes.shape, (Shape{8, 1, 5, 7}));
      EXPECT_EQ(seen(batch), seen(expected)) << threads << " threads";
      EXPECT_TRUE(std::ranges::equal(batch.labels, expected.labels));
      EXPECT_TRUE(std::holds_alternative<ByteImages>(batch.input()));
      EXPECT_TRUE(std::holds_alternative<std::span<float>>(expected.input()));
    }
  }
}

TEST_F(ByteBatches, ThatArePaddedHaveTheSameRows) {
  const auto floats = make_validation_loader(*data, {3, 31}, 8, options(2, false));
  const auto bytes = make_validation_loader(*data, {3, 31}, 8, options(2, true));
  for (const std::int64_t valid : {8, 8, 8, 4}) {  // the last in a buffer that was full
    const Batch& batch = bytes->next();

    ASSERT_EQ(batch.valid, valid);
    EXPECT_EQ(seen(batch), seen(floats->next()));
    for (std::size_t i = static_cast<std::size_t>(valid) * 35; i < 8 * 35; ++i)
      ASSERT_EQ(batch.bytes.pixels[i], 0);
  }
  EXPECT_EQ(bytes->next().valid, 0);
}

TEST_F(ByteBatches, TakeAQuarterOfTheMemoryThatADeviceLocks) {
  const Sampler sampler(3, {.samples = 40, .workers = 1, .batch = 3});
  LoaderOptions locking = options(1, true);
  std::vector<std::span<float>> locked;
  locking.pin = [&](std::span<float> memory) {
    locked.push_back(memory);
    return Storage(memory.data(), memory.size(), [](float*) {});
  };

  const auto bytes = make_training_loader(*data, sampler, 0, {}, locking);

  ASSERT_EQ(locked.size(), 3U);      // prefetch and the one in use
  EXPECT_EQ(locked[0].size(), 27U);  // 3 · 35 bytes
  const auto* const pixels = bytes->next().bytes.pixels.data();
  EXPECT_TRUE(std::ranges::any_of(
      locked, [&](auto memory) { return static_cast<const void*>(memory.data()) == pixels; }));
  EXPECT_LT(bytes->buffer_bytes(),
            make_training_loader(*data, sampler, 0, {}, options(1, false))->buffer_bytes());
}

TEST_F(ByteBatches, AreFloatsWhereSamplesAreMixedOrNeverWereBytes) {
  const Sampler sampler(3, {.samples = 40, .workers = 1, .batch = 4});
  LoaderOptions mixing = options(1, true);
  mixing.mixup = 0.2;
  const test::AsFloats never(
      open_dataset({}, test::idx_source(folder.path("images"), folder.path("labels")), 10, 1));

  EXPECT_EQ(make_training_loader(*data, sampler, 0, {}, mixing)->next().images.size(), 140U);
  EXPECT_EQ(make_training_loader(never, sampler, 0, {}, options(1, true))->next().images.size(), 140U);
  EXPECT_THROW(never.read_bytes(0, 0, {}), InternalError);
}

TEST_F(ByteBatches, ComeFromCopiesOfTheFilesToo) {
  DataSourceConfig source = test::idx_source(folder.path("images"), folder.path("labels"));
  source.staged_below = folder.path("");
  const auto copies = open_dataset({}, source, 10, 1);

  EXPECT_EQ(test::sample_of(*copies, 7).label, test::sample_of(*data, 7).label);
  EXPECT_EQ(test::bytes_of(*copies, 7), test::bytes_of(*data, 7));
  EXPECT_EQ(copies->scaling().value().factor, data->scaling().value().factor);
}

TEST_F(ByteBatches, CountTheTimeOfTheirThreads) {
  const Sampler sampler(3, {.samples = 40, .workers = 1, .batch = 8});
  for (const std::int64_t threads : {0, 2}) {
    const auto loader = make_training_loader(*data, sampler, 0, {}, options(threads, true));
    for (int i = 0; i < 20; ++i) loader->next();

    EXPECT_GT(loader->read_ns(), 0);
    if (threads == 0) {
      EXPECT_LE(loader->read_ns(), loader->wait_ns());
    }
  }
}

/// Image i is ten bytes i; some are bad.
class Flawed final : public Dataset {
 public:
  explicit Flawed(std::set<std::int64_t> bad) : bad_(std::move(bad)) {
    set_facts({.size = 48, .shape = {2, 1, 5}, .description = "flawed", .scaling = ByteScaling()});
  }
  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    return fill(i, to);
  }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t /*variation*/,
                          std::span<std::uint8_t> to) const override {
    return fill(i, to);
  }

 private:
  template <class Value>
  std::int32_t fill(std::int64_t i, std::span<Value> to) const {
    if (bad_.contains(i)) throw BadSample("bad");
    std::ranges::fill(to, static_cast<Value>(i));
    return static_cast<std::int32_t>(i % 7);
  }
  std::set<std::int64_t> bad_;
};

TEST_F(ByteBatches, ReplaceBadSamplesByTheSameOnes) {
  const Flawed flawed({3, 17, 18, 40});
  const Sampler sampler(3, {.samples = 48, .workers = 1, .batch = 12});
  const auto floats = make_training_loader(flawed, sampler, 0, {}, options(2, false));
  const auto bytes = make_training_loader(flawed, sampler, 0, {}, options(2, true));
  std::int64_t replaced = 0;
  for (int i = 0; i < 4; ++i) {
    const Batch& expected = floats->next();
    const Batch& batch = bytes->next();

    EXPECT_EQ(seen(batch), seen(expected));
    EXPECT_TRUE(std::ranges::equal(batch.labels, expected.labels));
    EXPECT_EQ(batch.replaced, expected.replaced);
    EXPECT_EQ(batch.first_replaced, expected.first_replaced);
    replaced += batch.replaced;
  }
  EXPECT_EQ(replaced, 4);
}

TEST(ByteDigits, OfMnistHaveTheBitsOfFloats) {
  const std::string folder = std::string(FLOTILLA_SOURCE_DIR) + "/inputs/data/mnist/";
  DataConfig config;
  config.mean = 0.1307;
  config.std = 0.3081;
  const auto data = open_dataset(
      config, test::idx_source(folder + "t10k-images-idx3-ubyte.gz", folder + "t10k-labels-idx1-ubyte.gz"),
      10, 1);
  for (const std::int64_t i : {0, 7, 1999}) {
    std::vector<float> floats(784);
    std::vector<std::uint8_t> bytes(784);

    EXPECT_EQ(data->read(i, 0, floats), data->read_bytes(i, 0, bytes));

    EXPECT_EQ(test::scaled({.pixels = bytes, .shape = {1, 1, 28, 28}, .scaling = data->scaling().value()}),
              floats);
    EXPECT_GT(*std::ranges::max_element(bytes), 200);
  }
}

}  // namespace
}  // namespace flotilla
