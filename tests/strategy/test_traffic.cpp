// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/trace.hpp"
#include "mpi/core/slices.hpp"
#include "src/strategy/local_sgd/fragments.hpp"
#include "tests/support/within.hpp"
#include "tests/train/training_run.hpp"

// What workers send, by what it is, and over a link that is emulated.

namespace flotilla {
namespace {

using test::resnet_deck;
using test::small_mlp_deck;
using test::TrainingRun;
using test::operator+;
using Texts = std::vector<std::string>;

const Texts flat = {"strategy.all_reduce=mpi", "train.global_batch_size=24"};
const Texts all_reduce = flat + Texts{"strategy.kind=all-reduce"};
const Texts local = flat + Texts{"strategy.kind=local-sgd", "strategy.period=6"};
const Texts streaming = local + Texts{"strategy.fragments=2", "strategy.overlap_steps=2", "strategy.mix=0.5"};
constexpr int steps = 24;

std::int64_t bytes(TrainingRun& training, Sent what) {
  return training.parts.sync.traffic.bytes(what);
}

/// Of a sum of `floats`: a rank's part of 2 (n − 1) / n of them.
std::int64_t flat_bytes(std::int64_t ranks, std::size_t floats) {
  return 2 * (ranks - 1) * static_cast<std::int64_t>(floats) * 4 / ranks;
}

/// A rank sends the others their slices, and each of them the sum of its own, with a scale for 256 values.
std::int64_t scaled_bytes(const mpi::Communicator& world, std::size_t floats, std::size_t bits) {
  std::size_t sum = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const mpi::SliceBounds slice = mpi::slice_of(0, floats, rank, world.size());
    const std::size_t values = slice.end - slice.begin;
    const std::size_t message = (values * bits + 7) / 8 + 4 * ((values + 255) / 256);
    sum += rank == world.rank() ? static_cast<std::size_t>(world.size() - 1) * message : message;
  }
  return world.size() == 1 ? 0 : static_cast<std::int64_t>(sum);
}

TEST(Traffic, OfGradientsIsThatOfTheirSums) {
  TrainingRun training(mpi::Communicator::world(), small_mlp_deck, all_reduce);
  for (int i = 0; i < steps; ++i) training.step();

  const std::size_t floats = training.parameters().size() + header_size;
  EXPECT_EQ(bytes(training, Sent::gradients), steps * flat_bytes(training.world.size(), floats));
  EXPECT_EQ(training.parts.sync.sent_bytes(), bytes(training, Sent::gradients));
}

TEST(Traffic, OfStatisticsIsTheirShare) {
  TrainingRun training(mpi::Communicator::world(), resnet_deck,
                       all_reduce + Texts{"strategy.bucket_mb=1024"});
  training.step();

  const std::int64_t ranks = training.world.size();
  const std::size_t statistics = training.statistics().size();
  const std::size_t all = training.parameters().size() + header_size + statistics;
  const std::int64_t sent = bytes(training, Sent::gradients) + bytes(training, Sent::statistics);
  // Each bucket is rounded down.
  EXPECT_TRUE(test::within(static_cast<double>(sent), static_cast<double>(flat_bytes(ranks, all)), 2));
  EXPECT_TRUE(test::within(static_cast<double>(bytes(training, Sent::statistics)),
                           static_cast<double>(flat_bytes(ranks, statistics)), 2));
}

TEST(Traffic, OfGradientsOverAScaledWireIsThatOfItsFormat) {
  for (const std::size_t bits : {std::size_t{8}, std::size_t{4}}) {
    const std::string wire = bits == 8 ? "int8" : "fp4";
    TrainingRun training(mpi::Communicator::world(), small_mlp_deck,
                         all_reduce + Texts{"strategy.wire=" + wire});
    for (int i = 0; i < steps; ++i) training.step();

    EXPECT_EQ(bytes(training, Sent::gradients),
              training.world.size() == 1
                  ? 0
                  : steps * scaled_bytes(training.world, training.parameters().size(), bits));
    EXPECT_EQ(bytes(training, Sent::sums), steps * flat_bytes(training.world.size(), header_size));
  }
}

TEST(Traffic, OfAveragesIsThatOfTheModelOncePerPeriod) {
  TrainingRun training(mpi::Communicator::world(), small_mlp_deck, local);
  for (int i = 0; i < steps + 3; ++i) training.step();
  const std::int64_t ranks = training.world.size();
  const std::size_t model = training.parameters().size();

  EXPECT_EQ(bytes(training, Sent::parameters), steps / 6 * flat_bytes(ranks, model));
  EXPECT_EQ(bytes(training, Sent::gradients), 0);
  EXPECT_EQ(bytes(training, Sent::sums) > 0, ranks > 1);
  EXPECT_EQ(bytes(training, Sent::evaluation), 0);
  training.parts.sync.strategy->consensus();
  EXPECT_EQ(bytes(training, Sent::parameters), steps / 6 * flat_bytes(ranks, model));
  EXPECT_EQ(bytes(training, Sent::evaluation), flat_bytes(ranks, model));
  training.parts.sync.strategy->state();
  EXPECT_EQ(bytes(training, Sent::slots), 0);
}

TEST(Traffic, OfFragmentsIsThatOfTheModelOncePerPeriod) {
  for (const std::size_t bits : {std::size_t{32}, std::size_t{8}, std::size_t{4}}) {
    const std::string wire = bits == 32 ? "float32" : bits == 8 ? "int8" : "fp4";
    TrainingRun training(mpi::Communicator::world(), small_mlp_deck,
                         streaming + Texts{"strategy.wire=" + wire});
    for (int i = 0; i < steps; ++i) training.step();

    std::int64_t expected = 0;
    for (const Fragment& fragment : cut_fragments(training.parts.model.network->layout(), 2))
      expected += steps / 6 *
                  (bits == 32 ? flat_bytes(training.world.size(), fragment.size())
                              : scaled_bytes(training.world, fragment.size(), bits));
    EXPECT_EQ(bytes(training, Sent::parameters), expected) << wire;
  }
}

TEST(Traffic, OverASlowOrJitteryLinkTrainsTheSameBits) {
  const auto link = [](const char* rate, const char* latency, const char* jitter) {
    return Texts{std::string("run.emulate_link.gbit_s=") + rate,
                 std::string("run.emulate_link.latency_us=") + latency,
                 std::string("run.emulate_link.jitter=") + jitter};
  };
  const auto train = [](const Texts& texts, std::int64_t* ns = nullptr) {
    TrainingRun training(mpi::Communicator::world(), small_mlp_deck, texts);
    const std::int64_t begin = trace::now_ns();
    for (int i = 0; i < steps; ++i) training.step();
    if (ns != nullptr) *ns = trace::now_ns() - begin;
    return training.parameters();
  };
  const std::int64_t ranks = mpi::Communicator::world().size();
  for (const Texts& strategy : {all_reduce, local, streaming, local + Texts{"strategy.wire=int8"}}) {
    const std::vector<float> expected = train(strategy);
    EXPECT_EQ(train(strategy + link("10", "1", "0")), expected);
    EXPECT_EQ(train(strategy + link("0.01", "500", "2")), expected);
    std::int64_t ns = 0;
    EXPECT_EQ(train(strategy + link("0.002", "1000", "0"), &ns), expected);
    if (ranks == 1 || strategy == streaming) continue;
    const std::int64_t sums = strategy == all_reduce ? steps : steps / 6;
    EXPECT_GE(ns, sums * 2'000'000);  // two messages at least
    if (strategy == all_reduce) {
      EXPECT_GE(ns, sums * flat_bytes(ranks, expected.size()) * 4000);
    }
  }
}

}  // namespace
}  // namespace flotilla
