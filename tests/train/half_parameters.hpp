// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "tests/train/served_run.hpp"

// Tests on two ranks the halves of parameters that layers read, after everything that writes parameters.

namespace flotilla::test {

/// Keys for a device that the tests run on.
struct HalvesDevice {
  Texts bfloat16;
  Texts graphs;   ///< Empty: it has none.
  Texts float16;  ///< Keys for float16 with steps that overflow; empty: the device has no float16.
};

inline std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// Halves, two in a word.
inline std::vector<std::uint32_t> read_halves(TrainingRun& run, GivenHalfSpan halves) {
  return bits_of(run.values({reinterpret_cast<const float*>(halves.address()), halves.size() / 2}));
}

/// Halves that are not those of any parameters of a run.
inline void overwrite_halves(TrainingRun& run) {
  const GivenHalfSpan halves = run.parts.model.network->halves()->values();
  const std::vector<float> large(halves.size() / 2, 3e4F);
  auto* const words = reinterpret_cast<float*>(const_cast<std::uint16_t*>(halves.address()));
  run.parts.machine.device->memory().upload(large, {words, large.size()});
}

/// The halves that the training network's next forward pass would read are those of `parameters`.
inline void expect_halves_of(TrainingRun& run, DeviceSpan<const float> parameters, const std::string& where) {
  Device& device = *run.parts.machine.device;
  HalfParameters& halves = *run.parts.model.network->halves();
  Storage storage = device.memory().allocate((parameters.size() + 1) / 2);
  const HalfSpan expected{reinterpret_cast<std::uint16_t*>(storage.span().address()), parameters.size()};
  device.tensors().round(parameters, expected);

  halves.prepare();

  EXPECT_EQ(read_halves(run, halves.values()), read_halves(run, expected)) << where;
}

inline std::vector<Texts> all_reduces(const HalvesDevice& on) {
  return {{},
          Texts{"optimizer.kind=adam", "train.accumulate_steps=2"} + on.graphs,
          {"optimizer.kind=adam", "run.reproducible=true", "run.virtual_shards=4"},
          {"optimizer.kind=lars", "optimizer.frozen=['fc1.*']", "optimizer.weight_decay=0.01"},
          Texts{"optimizer.kind=lamb"} + on.graphs,
          {"train.gradient_clip_norm=0.1", "train.average_decay=0.5"},
          Texts{"optimizer.kind=adam"} + on.float16,
          Texts{"optimizer.kind=lamb"} + on.graphs + on.float16,
          Texts{"train.gradient_clip_norm=0.1"} + on.float16};
}

inline std::vector<Texts> other_strategies(const HalvesDevice& on) {
  return {{"strategy.kind=local-sgd", "strategy.period=3"},
          Texts{"strategy.kind=local-sgd", "strategy.period=2", "strategy.outer.kind=nesterov",
                "strategy.outer.momentum=0.5"} +
              on.graphs,
          {"strategy.kind=local-sgd", "strategy.period=2", "strategy.begin_step=3",
           "strategy.before_begin=all-reduce"},
          Texts{"strategy.kind=adaptive-local-sgd"} + on.float16,
          served({"server.mode=sync"}),
          served({"server.mode=async"}),
          served({"server.mode=half-async", "server.push_every=3"}),
          served({"server.mode=geo", "server.push_every=3"})};
}

/// The tests, of a fixture `On` that skips where its device is missing and says how to run on it:
/// On::device().
template <class On>
class HalvesOfParameters : public On {
 protected:
  /// Calls body(run) with a run of small_mlp_deck on the device.
  template <class Body>
  static void with_halves(const Texts& more, const Body& body) {
    with_run(small_mlp_deck, On::device().bfloat16 + more, body);
  }
};
TYPED_TEST_SUITE_P(HalvesOfParameters);

TYPED_TEST_P(HalvesOfParameters, FollowEveryStrategyAndOptimizer) {
  for (const std::vector<Texts>& strategies :
       {all_reduces(TypeParam::device()), other_strategies(TypeParam::device())}) {
    for (const Texts& strategy : strategies) {
      this->with_halves(strategy, [&](TrainingRun& run) {
        for (int step = 0; step < 8; ++step) {
          run.step();
          expect_halves_of(run, run.parts.model.weights.parameters, cat(text_of(strategy), "step ", step));
        }
      });
    }
  }
}

TYPED_TEST_P(HalvesOfParameters, AreReadAsTheUpdateWroteThemWithAllReduce) {
  for (const Texts& more : all_reduces(TypeParam::device())) {
    this->with_halves(more, [&](TrainingRun& run) {
      TrainingRun rounding(run.world.collective_clone(), small_mlp_deck, TypeParam::device().bfloat16 + more);
      for (int step = 0; step < 6; ++step) {
        run.step();
        rounding.parts.model.network->halves()->expire();
        rounding.step();
      }
      EXPECT_EQ(bits_of(run.parameters()), bits_of(rounding.parameters())) << text_of(more);

      overwrite_halves(run);
      overwrite_halves(rounding);
      rounding.parts.model.network->halves()->expire();
      run.step();
      rounding.step();
      if (run.parts.model.loss_scale.enabled()) return;  // The step may have been skipped.
      EXPECT_NE(bits_of(run.parameters()), bits_of(rounding.parameters())) << text_of(more);
    });
  }
}

TYPED_TEST_P(HalvesOfParameters, FollowABroadcastAndWhatIsLoaded) {
  this->with_halves({}, [&](TrainingRun& run) {
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

TYPED_TEST_P(HalvesOfParameters, FollowTheModelThatIsEvaluated) {
  this->with_halves({"train.average_decay=0.5"}, [&](TrainingRun& run) {
    for (int step = 0; step < 3; ++step) run.step();
    const Model average = run.parts.sync.update->average();

    run.parts.model.evaluate_with(average);
    expect_halves_of(run, average.parameters, "average");
    run.parts.model.evaluate_with(run.parts.model.weights);
    expect_halves_of(run, run.parts.model.weights.parameters, "weights");

    run.step();
    expect_halves_of(run, run.parts.model.weights.parameters, "after a step");
  });
}

TYPED_TEST_P(HalvesOfParameters, AreKeptOnlyIfAPassHasRoundedThem) {
  this->with_halves({}, [&](TrainingRun& run) {
    HalfParameters& halves = *run.parts.model.network->halves();
    const Model& weights = run.parts.model.weights;
    run.parts.model.evaluate_with(weights);

    halves.keep();
    expect_halves_of(run, weights.parameters, "never rounded");

    EXPECT_THROW(halves.target(weights.parameters.subspan(0, 16)), InternalError);
  });
}

REGISTER_TYPED_TEST_SUITE_P(HalvesOfParameters, FollowEveryStrategyAndOptimizer,
                            AreReadAsTheUpdateWroteThemWithAllReduce, FollowABroadcastAndWhatIsLoaded,
                            FollowTheModelThatIsEvaluated, AreKeptOnlyIfAPassHasRoundedThem);

}  // namespace flotilla::test
