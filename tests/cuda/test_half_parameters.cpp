// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/train/served_run.hpp"

// On two ranks: the halves of parameters that layers read, after all that writes parameters.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

const std::string deck_text = R"(
[model]
kind = "mlp"
widths = [24, 16]
activation = "relu"
classes = 3
[data]
kind = "random"
shape = [30]
[data.train]
samples = 240
[train]
steps = 1000
global_batch_size = 16
[optimizer]
kind = "momentum"
[schedule]
learning_rate = 0.05
[device]
kind = "cuda"
precision = "bfloat16"
share = true
)";

const Texts float16 = {"device.precision=float16", "device.loss_scale.initial=1e9",
                       "device.loss_scale.backoff=0.01", "device.loss_scale.backoff_every=1"};

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// Halves, two in a word.
std::vector<std::uint32_t> read_halves(TrainingRun& run, GivenHalfSpan halves) {
  return bits_of(run.values({reinterpret_cast<const float*>(halves.address()), halves.size() / 2}));
}

/// The halves that the training network's next forward pass would read are those of `parameters`.
void expect_halves_of(TrainingRun& run, DeviceSpan<const float> parameters, const std::string& where) {
  Device& device = *run.parts.machine.device;
  HalfParameters& halves = *run.parts.model.network->halves();
  Storage storage = device.memory().allocate((parameters.size() + 1) / 2);
  const HalfSpan expected{reinterpret_cast<std::uint16_t*>(storage.span().address()), parameters.size()};
  device.tensors().round(parameters, expected);

  halves.prepare();

  EXPECT_EQ(read_halves(run, halves.values()), read_halves(run, expected)) << where;
}

std::string text_of(const Texts& keys) {
  std::string text;
  for (const std::string& key : keys) text += key + " ";
  return text;
}

const std::vector<Texts>& all_reduces() {
  static const std::vector<Texts> all = {
      {},
      {"optimizer.kind=adam", "train.accumulate_steps=2", "device.graphs=true"},
      {"optimizer.kind=adam", "run.reproducible=true", "run.virtual_shards=4"},
      {"optimizer.kind=lars", "optimizer.frozen=['fc1.*']", "optimizer.weight_decay=0.01"},
      {"optimizer.kind=lamb", "device.graphs=true"},
      {"train.gradient_clip_norm=0.1", "train.average_decay=0.5"},
      Texts{"optimizer.kind=adam"} + float16,
      Texts{"optimizer.kind=lamb", "device.graphs=true"} + float16,
      Texts{"train.gradient_clip_norm=0.1"} + float16};
  return all;
}

const std::vector<Texts>& other_strategies() {
  const auto served = [](const Texts& more) {
    return Texts{"strategy.kind=parameter-server", "roles.kind=ratio", "roles.servers=1",
                 "server.min_block_size=64"} +
           more;
  };
  static const std::vector<Texts> all = {
      {"strategy.kind=local-sgd", "strategy.period=3"},
      {"strategy.kind=local-sgd", "strategy.period=2", "strategy.outer.kind=nesterov",
       "strategy.outer.momentum=0.5", "device.graphs=true"},
      {"strategy.kind=local-sgd", "strategy.period=2", "strategy.begin_step=3",
       "strategy.before_begin=all-reduce"},
      Texts{"strategy.kind=adaptive-local-sgd"} + float16,
      served({"server.mode=sync"}),
      served({"server.mode=async"}),
      served({"server.mode=half-async", "server.push_every=3"}),
      served({"server.mode=geo", "server.push_every=3"})};
  return all;
}

class HalvesOfParameters : public OnGpu {};

TEST_F(HalvesOfParameters, FollowEveryStrategyAndOptimizer) {
  for (const std::vector<Texts>& strategies : {all_reduces(), other_strategies()}) {
    for (const Texts& strategy : strategies) {
      with_run(deck_text, strategy, [&](TrainingRun& run) {
        for (int step = 0; step < 8; ++step) {
          run.step();
          expect_halves_of(run, run.parts.model.weights.parameters, cat(text_of(strategy), "step ", step));
        }
      });
    }
  }
}

TEST_F(HalvesOfParameters, AreWrittenByTheUpdateWithAllReduce) {
  for (const Texts& more : all_reduces()) {
    with_run(deck_text, more, [&](TrainingRun& run) {
      TrainingRun rounding(run.world.collective_clone(), deck_text, more);
      const auto launches = [](TrainingRun& of) {
        const fake::Done before = fake::done();
        of.step();
        const fake::Done after = fake::done();
        return after.alone + after.in_graphs - before.alone - before.in_graphs;
      };
      for (int step = 0; step < 10; ++step) {
        rounding.parts.model.network->halves()->expire();
        const std::int64_t written = launches(run);
        const std::int64_t rounded = launches(rounding);
        if (step == 0) continue;
        EXPECT_EQ(written, rounded - run.parts.data.sharding.micro_steps) << text_of(more);
      }

      EXPECT_EQ(bits_of(run.parameters()), bits_of(rounding.parameters())) << text_of(more);
      EXPECT_EQ(run.parts.model.loss_scale.enabled(), run.parts.model.loss_scale.skipped() > 0);
    });
  }
}

TEST_F(HalvesOfParameters, FollowABroadcastAndWhatIsLoaded) {
  with_run(deck_text, {}, [&](TrainingRun& run) {
    const DeviceSpan<float> parameters = run.parts.model.weights.parameters;
    FlatMath& flat = run.parts.machine.device->flat();
    run.step();
    run.step();
    if (run.world.rank() > 0) flat.fill(parameters, 0.5F);

    run.parts.sync.strategy->start();
    expect_halves_of(run, parameters, "broadcast");

    run.step();
    for (const StateArray& array : run.parts.sync.strategy->live())
      if (array.values == parameters) flat.fill(array.values, 0.25F);
    expect_halves_of(run, parameters, "loaded");
  });
}

TEST_F(HalvesOfParameters, FollowTheModelThatIsEvaluated) {
  with_run(deck_text, {"train.average_decay=0.5"}, [&](TrainingRun& run) {
    for (int step = 0; step < 3; ++step) run.step();
    const Model average = run.parts.sync.strategy->average();

    run.parts.model.evaluate_with(average);
    expect_halves_of(run, average.parameters, "average");
    run.parts.model.evaluate_with(run.parts.model.weights);
    expect_halves_of(run, run.parts.model.weights.parameters, "weights");

    run.step();
    expect_halves_of(run, run.parts.model.weights.parameters, "after a step");
  });
}

TEST_F(HalvesOfParameters, AreKeptOnlyIfAPassHasRoundedThem) {
  with_run(deck_text, {}, [&](TrainingRun& run) {
    HalfParameters& halves = *run.parts.model.network->halves();
    const Model& weights = run.parts.model.weights;
    run.parts.model.evaluate_with(weights);

    halves.keep();
    expect_halves_of(run, weights.parameters, "never rounded");

    EXPECT_THROW(halves.target(weights.parameters.subspan(0, 16)), InternalError);
  });
}

}  // namespace
}  // namespace flotilla::test
