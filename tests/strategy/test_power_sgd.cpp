// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "kernels/host_memory.hpp"
#include "kernels/random.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/reduce/power_sgd.hpp"
#include "tests/support/relative_difference.hpp"
#include "tests/support/within.hpp"
#include "tests/train/training_run.hpp"

// PowerSGD on 1, 2 and 4 workers, in process: of tensors of any shape, then in training.

namespace flotilla {
namespace {

using test::resnet_deck;
using test::small_mlp_deck;
using test::TrainingRun;
using test::operator+;
using Texts = std::vector<std::string>;

const std::vector<Shape> awkward = {{7, 5}, {31, 17}, {1, 9}, {9, 1}, {13}, {16, 8, 3, 3}, {1, 1}, {2, 127}};

/// Gradients of tensors of some shapes, with header, on every worker.
struct Gradients {
  Gradients(const std::vector<Shape>& shapes, std::int64_t rank, double min_rate) {
    for (const Shape& shape : shapes)
      tensors.add({.name = std::to_string(tensors.layout().slices().size()), .shape = shape});
    const auto count = header_size + static_cast<std::size_t>(tensors.layout().size());
    array = device->memory().allocate(count);
    AllReducePlan plan =
        plan_all_reduce({.all_reduce = choice<AllReduceWord>("mpi")}, {.places = mpi::find_topology(world)});
    power.emplace(PowerSgd::Parts{.device = *device,
                                  .watchdog = watchdog,
                                  .workers = world,
                                  .tensors = tensors,
                                  .gradients = array.span(),
                                  .cut = cut_for_compression(tensors, rank, min_rate),
                                  .seed = 3},
                  plan, world);
  }

  /// Fills the gradients with values of this worker; padding between tensors stays zero.
  void draw(std::uint64_t step) {
    Random random(step, random_order, static_cast<std::uint64_t>(world.rank()));
    const auto fill = [&](DeviceSpan<float> values) {
      for (float& value : host_span(values)) value = static_cast<float>(random.normal());
    };
    fill(array.span().subspan(0, header_size));
    for (const Slice& slice : tensors.layout().slices())
      fill(part_of(array.span().subspan(header_size, array.size() - header_size), slice));
  }
  std::vector<float> values() { return copy(host_span(array.span())); }
  /// Errors, laid out as the gradients.
  std::vector<float> errors() {
    std::vector<float> all(header_size);
    const auto values = host_span(power->errors().values);
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  static std::vector<float> copy(std::span<const float> from) { return {from.begin(), from.end()}; }
  std::vector<float> mean(std::vector<float> values) const {
    world.all_reduce(std::span<float>(values));
    for (float& value : values) value /= static_cast<float>(world.size());
    return values;
  }
  /// The sums, as means.
  std::vector<float> averaged() {
    std::vector<float> all = values();
    for (float& value : all) value /= static_cast<float>(world.size());
    return all;
  }

  mpi::Communicator world = mpi::Communicator::world();
  std::unique_ptr<Device> device = make_device({.threads = 2});
  mpi::Watchdog watchdog{0.0, nullptr};
  TensorSet tensors;
  Storage array;
  std::optional<PowerSgd> power;
};

std::vector<float> sum_of(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

constexpr double rounding = 1e-6;

TEST(PowerSgd, LeavesInItsErrorWhatTheApproximationLacks) {
  for (const std::int64_t rank : {1, 2, 5}) {
    Gradients gradients(awkward, rank, 0.0);
    for (std::uint64_t step = 0; step < 4; ++step) {
      gradients.draw(step);
      const std::vector<float> given = sum_of(gradients.values(), gradients.errors());

      gradients.power->sum(static_cast<std::int64_t>(step));

      EXPECT_TRUE(test::same_on_all(gradients.world, gradients.values()));
      // What is sent whole has no errors; the means stand for it.
      std::vector<float> found = sum_of(gradients.averaged(), gradients.errors());
      std::vector<float> expected = given;
      const std::vector<float> means = gradients.mean(given);
      const auto whole = [&](std::size_t begin, std::size_t size) {
        std::copy_n(means.begin() + static_cast<std::ptrdiff_t>(begin), size,
                    expected.begin() + static_cast<std::ptrdiff_t>(begin));
      };
      whole(0, header_size);
      whole(header_size + static_cast<std::size_t>(gradients.tensors.layout()[4].offset), 13);
      EXPECT_TRUE(test::within(test::relative_difference(found, expected), 0.0, rounding)) << rank;
    }
  }
}

TEST(PowerSgd, OfFullRankIsTheMean) {
  Gradients gradients(awkward, 1000, 0.0);
  for (std::uint64_t step = 0; step < 3; ++step) {
    gradients.draw(step);
    const std::vector<float> expected = gradients.mean(sum_of(gradients.values(), gradients.errors()));

    gradients.power->sum(static_cast<std::int64_t>(step));

    EXPECT_TRUE(test::within(test::relative_difference(gradients.averaged(), expected), 0.0, 1e-5));
  }
}

TEST(PowerSgd, OfAMatrixOfItsRankIsTheMatrix) {
  Gradients gradients({{40, 30}}, 2, 2.0);
  ASSERT_EQ(cut_for_compression(gradients.tensors, 2).count(0), 2U * (40U + 30U));
  gradients.draw(0);
  const std::span<float> values = host_span(gradients.array.span());
  for (std::size_t row = 0; row < 40; ++row)
    for (std::size_t column = 0; column < 30; ++column)
      values[header_size + row * 30 + column] =
          std::sin(static_cast<float>(row)) * std::cos(static_cast<float>(column)) +
          static_cast<float>(row) * 0.1F;
  const std::vector<float> expected = gradients.mean(gradients.values());

  gradients.power->sum(0);

  EXPECT_TRUE(test::within(test::relative_difference(gradients.averaged(), expected), 0.0, 1e-5));
}

TEST(PowerSgd, GoesOnAfterGradientsOfZeros) {
  Gradients gradients(awkward, 1000, 0.0);
  for (std::int64_t step = 0; step < 2; ++step) {
    gradients.power->sum(step);
    EXPECT_EQ(gradients.values(), std::vector<float>(gradients.values().size()));
    EXPECT_EQ(gradients.errors(), std::vector<float>(gradients.errors().size()));
  }
  gradients.draw(1);
  const std::vector<float> expected = gradients.mean(gradients.values());

  gradients.power->sum(2);

  EXPECT_TRUE(test::within(test::relative_difference(gradients.averaged(), expected), 0.0, 1e-5));
}

TEST(PowerSgd, SendsWholeWhatItWouldNotHalve) {
  Gradients gradients({{64, 64}, {16, 16}, {100}, {1, 500}, {32, 8, 3, 3}}, 4, 2.0);
  const CompressionCut cut = cut_for_compression(gradients.tensors, 4);

  std::vector<std::size_t> products;
  for (const ThinProduct& product : cut.products) products.push_back(product.slice);
  EXPECT_EQ(products, (std::vector<std::size_t>{0, 4}));
  EXPECT_EQ(cut.whole, (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(cut.whole_size, 256U + 100U + 500U);
  EXPECT_EQ(cut.left_size, 4U * (64 + 32));
  EXPECT_EQ(cut.right_size, 4U * (64 + 72));
}

TEST(Orthonormalise, MakesDependentVectorsZero) {
  constexpr std::size_t size = 50;
  constexpr std::size_t count = 5;
  std::vector<float> vectors(size * count);
  Random random(1, random_order);
  for (float& value : vectors) value = static_cast<float>(random.normal());
  for (std::size_t i = 0; i < size; ++i) {
    vectors[size + i] = 0.0F;                // the second
    vectors[3 * size + i] = 2 * vectors[i];  // the fourth
    vectors[4 * size + i] = vectors[2 * size + i] + 1e-3F * vectors[4 * size + i];
  }
  std::vector<double> room(size);

  orthonormalise(vectors, count, room);

  const auto product = [&](std::size_t a, std::size_t b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < size; ++i) sum += double{vectors[a * size + i]} * vectors[b * size + i];
    return sum;
  };
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b <= a; ++b)
      EXPECT_TRUE(test::within(product(a, b), a == b && a != 1 && a != 3 ? 1.0 : 0.0, rounding)) << a << b;
}

const Texts power_sgd = {"strategy.compression=powersgd", "strategy.compression_rank=2",
                         "strategy.compression_start=0"};

const Texts small_steps = {"train.global_batch_size=8", "strategy.bucket_mb=4"};

TEST(PowerSgd, SharesOutTheGradientOfNetworks) {
  const auto world = mpi::Communicator::world();
  for (const auto& [deck, wire] : {std::pair(small_mlp_deck, "float32"), std::pair(resnet_deck, "float32"),
                                   std::pair(small_mlp_deck, "int8"), std::pair(resnet_deck, "fp4")}) {
    SCOPED_TRACE(wire);
    TrainingRun plain(mpi::Communicator::world(), deck, small_steps);
    TrainingRun compressed(mpi::Communicator::world(), deck,
                           power_sgd + small_steps + Texts{std::string("strategy.wire=") + wire});
    ASSERT_FALSE(compressed.parts.sync.reduction.compression == nullptr);

    plain.step();
    compressed.step();

    const auto gradients = [](TrainingRun& run) {
      return run.values(parameter_part(run.parts.model.gradients(), run.parts.model.weights));
    };
    std::vector<float> errors = compressed.values(compressed.parts.sync.wire_errors().front().values);
    world.all_reduce(std::span<float>(errors));
    EXPECT_TRUE(test::within(
        test::relative_difference(sum_of(gradients(compressed), errors), gradients(plain)), 0.0, rounding));
    EXPECT_NE(gradients(compressed), gradients(plain));
    compressed.step();
    EXPECT_TRUE(test::same_on_all(world, compressed.parameters()));
    EXPECT_TRUE(test::same_on_all(
        world, compressed.values(compressed.parts.sync.reduction.compression->factors().values)));
    EXPECT_EQ(compressed.statistics().empty(), deck == small_mlp_deck);
  }
}

TEST(PowerSgd, IsAllReduceBeforeItsStart) {
  for (const auto& [deck, wire] : {std::pair(small_mlp_deck, "float32"), std::pair(resnet_deck, "float32"),
                                   std::pair(small_mlp_deck, "int8")}) {
    const Texts own = small_steps + Texts{std::string("strategy.wire=") + wire};
    TrainingRun plain(mpi::Communicator::world(), deck, own);
    TrainingRun compressed(mpi::Communicator::world(), deck,
                           power_sgd + own + Texts{"strategy.compression_start=2"});
    for (int step = 0; step < 2; ++step) {
      plain.step();
      compressed.step();
    }
    EXPECT_EQ(compressed.parameters(), plain.parameters());
    EXPECT_EQ(compressed.statistics(), plain.statistics());

    plain.step();
    compressed.step();

    EXPECT_NE(compressed.parameters(), plain.parameters());
  }
}

TEST(PowerSgd, CountsWhatItSends) {
  const auto world = mpi::Communicator::world();
  for (const std::string wire : {"float32", "bfloat16", "int8"}) {
    TrainingRun run(mpi::Communicator::world(), small_mlp_deck,
                    power_sgd + Texts{"strategy.all_reduce=mpi", "strategy.wire=" + wire});

    for (int step = 0; step < 3; ++step) run.step();

    // 30 -> 24 -> 12 -> 3: two matrices shrink to less than half by two columns each, the third and the
    // biases do not. The header's sums are never rounded.
    const std::size_t left = 2 * (30 + 24);
    const std::size_t right = 2 * (24 + 12);
    const std::size_t whole = 24 + 12 + 3 + 12 * 3;
    const Reduction& reduction = run.parts.sync.reduction.compression->reduction();
    const std::size_t bytes =
        wire == "float32" || world.size() == 1
            ? reduction.first().sent_bytes(header_size + whole + left)
            : reduction.exact->sent_bytes(header_size) + reduction.first().sent_bytes(whole + left);
    EXPECT_EQ(run.parts.sync.sent_bytes(),
              3 * static_cast<std::int64_t>(bytes + reduction.first().sent_bytes(right)));
    EXPECT_EQ(run.parts.sync.sent_bytes() > 0, world.size() > 1);
  }
}

TEST(PowerSgd, GoesWithMicroStepsClippingAndFrozenParameters) {
  const Texts more = {"train.accumulate_steps=2", "train.gradient_clip_norm=0.01", "optimizer.frozen=fc1.*",
                      "optimizer.weight_decay=0.01"};
  TrainingRun run(mpi::Communicator::world(), small_mlp_deck, power_sgd + more);
  const std::vector<float> begin = run.parameters();
  const Slice frozen = run.parts.model.network->layout()[0];

  StepOutcome last;
  for (int step = 0; step < 5; ++step) last = run.step();

  const std::vector<float> after = run.parameters();
  EXPECT_EQ(last.samples, 16.0);
  EXPECT_FALSE(last.stop);
  EXPECT_TRUE(std::equal(after.begin(), after.begin() + frozen.size, begin.begin()));
  EXPECT_NE(after, begin);
  EXPECT_TRUE(test::same_on_all(run.world, after));
}

}  // namespace
}  // namespace flotilla
