// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "src/optim/optimizer.hpp"
#include "tests/support/within.hpp"
#include "tests/train/plain_device.hpp"

namespace flotilla {
namespace {

using Values = std::vector<double>;

constexpr double rate = 0.1;
constexpr double scale = 0.5;

/// A weight of five values, a bias of two.
ArenaLayout small_layout() {
  ArenaLayout layout;
  layout.add("fc.weight", {5}, ParameterKind::weight);
  layout.add("fc.bias", {2}, ParameterKind::bias);
  return layout;
}

/// What is known of one tensor: its parameters, and as many slots as the rule has.
struct Known {
  Values p;
  Values a = Values(p.size());
  Values b = Values(p.size());
};

double norm(const Values& x) {
  double sum = 0.0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

/// The gradient of step 1, 2, …: it changes, so that what a slot remembers matters.
double gradient(std::int64_t step, std::size_t index) {
  return std::sin(1.0 + 0.7 * static_cast<double>(index) + 1.3 * static_cast<double>(step));
}

/// One step of a rule in double: changes `known`, given the scaled gradients, the tensor's decay and the
/// step.
using Rule = std::function<void(Known& known, const Values& g, double decay, int step)>;

/// Three steps of an optimizer and of a rule, on the same numbers.
void expect_three_steps(const OptimizerConfig& config, const Rule& rule) {
  PlainDevice device;
  const ArenaLayout layout = small_layout();
  const auto optimizer = make_optimizer(config, layout, device);
  Storage parameters = device.memory().allocate(static_cast<std::size_t>(layout.size()));
  Storage gradients = device.memory().allocate(static_cast<std::size_t>(layout.size()));
  std::vector<Known> known;
  for (const Slice& slice : layout.slices()) {
    Values start;
    for (std::int64_t i = 0; i < slice.size; ++i) {
      start.push_back(0.3 * static_cast<double>(i + 1));
      parameters.span().address()[slice.offset + i] = static_cast<float>(start.back());
    }
    known.push_back({start});
  }

  for (int step = 1; step <= 3; ++step) {
    for (std::size_t tensor = 0; tensor < known.size(); ++tensor) {
      const Slice& slice = layout[tensor];
      Values g;
      for (std::size_t i = 0; i < known[tensor].p.size(); ++i) {
        gradients.span().address()[static_cast<std::size_t>(slice.offset) + i] =
            static_cast<float>(gradient(step, i));
        g.push_back(scale * gradient(step, i));
      }
      const bool excluded = slice.kind == ParameterKind::bias && !config.no_decay.empty();
      rule(known[tensor], g, excluded ? 0.0 : config.weight_decay, step);
    }
    optimizer->step(parameters.span(), gradients.span(), rate, scale);
  }

  EXPECT_EQ(optimizer->steps(), 3);
  std::vector<bool> covered(static_cast<std::size_t>(layout.size()));
  for (std::size_t tensor = 0; tensor < known.size(); ++tensor) {
    for (std::size_t i = 0; i < known[tensor].p.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(layout[tensor].offset) + i;
      covered[at] = true;
      // Some ten float operations a step, on values about 1.
      EXPECT_TRUE(test::within(parameters.span().address()[at], known[tensor].p[i],
                               30.0 * std::numeric_limits<float>::epsilon()))
          << config.kind << " " << layout[tensor].name << "[" << i << "]";
    }
  }
  for (std::size_t at = 0; at < covered.size(); ++at) {
    if (!covered[at]) {
      EXPECT_EQ(parameters.span().address()[at], 0.0F) << "padding at " << at;
    }
  }
}

/// A rule without slots shared by values.
Rule elementwise(const std::function<void(double& p, double g, double& a, double& b, int step)>& update,
                 bool decoupled = false) {
  return [=](Known& known, const Values& g, double decay, int step) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double before = known.p[i];
      update(known.p[i], decoupled ? g[i] : g[i] + decay * before, known.a[i], known.b[i], step);
      if (decoupled) known.p[i] -= rate * decay * before;
    }
  };
}

/// Adam's direction (Kingma & Ba 2015, algorithm 1), β₁ 0.9, β₂ 0.99, ε 10⁻⁶.
double adam_direction(double g, double& m, double& v, int step) {
  m = 0.9 * m + 0.1 * g;
  v = 0.99 * v + 0.01 * g * g;
  return m / (1.0 - std::pow(0.9, step)) / (std::sqrt(v / (1.0 - std::pow(0.99, step))) + 1e-6);
}

OptimizerConfig config_of(const char* kind) {
  OptimizerConfig config;
  config.kind = choice<OptimizerKind>(kind);
  config.momentum = 0.8;
  config.beta2 = 0.99;
  config.epsilon = 1e-6;
  config.weight_decay = 0.05;
  config.no_decay = {NoDecay::biases};
  config.lars_coefficient = 0.02;
  return config;
}

TEST(Optimizer, SgdFollowsItsFormula) {
  expect_three_steps(config_of("sgd"),
                     elementwise([](double& p, double g, double&, double&, int) { p -= rate * g; }));
}

TEST(Optimizer, SgdDecaysBesideTheRuleIfAsked) {
  OptimizerConfig config = config_of("sgd");
  config.decay = Decay::decoupled;

  expect_three_steps(config,
                     elementwise([](double& p, double g, double&, double&, int) { p -= rate * g; }, true));
}

TEST(Optimizer, DecaysBiasesUnlessTheyAreExcluded) {
  OptimizerConfig config = config_of("sgd");
  config.no_decay.clear();

  expect_three_steps(config, elementwise([](double& p, double g, double&, double&, int) { p -= rate * g; }));
}

TEST(Optimizer, MomentumFollowsItsFormula) {
  expect_three_steps(config_of("momentum"), elementwise([](double& p, double g, double& v, double&, int) {
                       v = 0.8 * v + g;
                       p -= rate * v;
                     }));
}

TEST(Optimizer, NesterovFollowsItsFormula) {
  expect_three_steps(config_of("nesterov"), elementwise([](double& p, double g, double& v, double&, int) {
                       v = 0.8 * v + g;
                       p -= rate * (g + 0.8 * v);
                     }));
}

TEST(Optimizer, AdamFollowsItsFormula) {
  expect_three_steps(config_of("adam"), elementwise([](double& p, double g, double& m, double& v, int step) {
                       p -= rate * adam_direction(g, m, v, step);
                     }));
}

TEST(Optimizer, AdamwDecaysBesideTheRule) {
  expect_three_steps(config_of("adamw"),
                     elementwise([](double& p, double g, double& m, double& v,
                                    int step) { p -= rate * adam_direction(g, m, v, step); },
                                 true));
}

TEST(Optimizer, AdagradFollowsItsFormula) {
  expect_three_steps(config_of("adagrad"), elementwise([](double& p, double g, double& sum, double&, int) {
                       sum += g * g;
                       p -= rate * g / (std::sqrt(sum) + 1e-6);
                     }));
}

TEST(Optimizer, LarsScalesTheRateOfDecayedTensors) {
  expect_three_steps(config_of("lars"), [](Known& known, const Values& g, double decay, int) {
    const double own_rate =
        decay > 0.0 ? rate * 0.02 * norm(known.p) / (norm(g) + decay * norm(known.p) + 1e-6) : rate;
    for (std::size_t i = 0; i < g.size(); ++i) {
      known.a[i] = 0.8 * known.a[i] + own_rate * (g[i] + decay * known.p[i]);
      known.p[i] -= known.a[i];
    }
  });
}

TEST(Optimizer, LambScalesTheRateOfEveryTensor) {
  expect_three_steps(config_of("lamb"), [](Known& known, const Values& g, double decay, int step) {
    Values direction;
    for (std::size_t i = 0; i < g.size(); ++i) {
      direction.push_back(adam_direction(g[i], known.a[i], known.b[i], step) + decay * known.p[i]);
    }
    const double trust = norm(known.p) / norm(direction);
    for (std::size_t i = 0; i < g.size(); ++i) known.p[i] -= rate * trust * direction[i];
  });
}

class EveryOptimizer : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryOptimizer,
                         testing::Values("sgd", "momentum", "nesterov", "adam", "adamw", "adagrad", "lars",
                                         "lamb"));

TEST_P(EveryOptimizer, GoesOnFromItsSlotsAndStepsAsIfNeverStopped) {
  PlainDevice device;
  const ArenaLayout layout = small_layout();
  const auto size = static_cast<std::size_t>(layout.size());
  Storage whole = device.memory().allocate(size);
  Storage resumed = device.memory().allocate(size);
  Storage gradients = device.memory().allocate(size);
  for (const std::size_t i : {0U, 1U, 4U, 16U, 17U}) {
    whole.span().address()[i] = resumed.span().address()[i] = 1.0F;
    gradients.span().address()[i] = 0.25F * static_cast<float>(i + 1);
  }
  const auto first = make_optimizer(config_of(GetParam()), layout, device);
  const auto second = make_optimizer(config_of(GetParam()), layout, device);

  first->step(whole.span(), gradients.span(), rate, scale);
  std::copy_n(whole.span().address(), size, resumed.span().address());
  for (std::size_t slot = 0; slot < first->slots().size(); ++slot) {
    std::copy_n(first->slots()[slot].values.address(), size, second->slots()[slot].values.address());
  }
  second->set_steps(first->steps());
  first->step(whole.span(), gradients.span(), rate, scale);
  second->step(resumed.span(), gradients.span(), rate, scale);

  for (std::size_t i = 0; i < size; ++i) {
    EXPECT_EQ(whole.span().address()[i], resumed.span().address()[i]) << "at " << i;
  }
}

TEST_P(EveryOptimizer, MakesTheSameStepInParts) {
  const OptimizerConfig config = config_of(GetParam());
  PlainDevice device;
  ArenaLayout layout = small_layout();
  const auto size = static_cast<std::size_t>(layout.size());
  Storage whole = device.memory().allocate(size);
  Storage parts = device.memory().allocate(size);
  Storage gradients = device.memory().allocate(size);
  for (const Slice& slice : layout.slices()) {
    for (std::int64_t at = slice.offset; at < slice.offset + slice.size; ++at) {
      const auto i = static_cast<std::size_t>(at);
      whole.span().address()[i] = parts.span().address()[i] = 1.0F + static_cast<float>(i);
      gradients.span().address()[i] = static_cast<float>(gradient(1, i));
    }
  }
  const auto first = make_optimizer(config, layout, device);
  const auto second = make_optimizer(config, layout, device);

  for (int step = 0; step < 3; ++step) {
    first->step(whole.span(), gradients.span(), rate, scale);
    const std::int64_t number = second->begin_step();
    const auto part = [&](std::size_t begin, std::size_t end) {
      second->step_part(parts.span(), gradients.span(), rate, scale,
                        {.step = number, .begin = begin, .end = end});
    };
    if (needs_norms(config)) {
      EXPECT_THROW(part(3, size), InternalError);
      return;
    }
    part(3, 17);  // spans both tensors
    part(17, size);
    part(0, 3);
  }

  EXPECT_EQ(second->steps(), 3);
  for (std::size_t i = 0; i < size; ++i)
    EXPECT_EQ(whole.span().address()[i], parts.span().address()[i]) << "at " << i;
}

TEST_P(EveryOptimizer, LeavesParametersOfZeroWithGradientZeroAlone) {
  PlainDevice device;
  const ArenaLayout layout = small_layout();
  Storage parameters = device.memory().allocate(static_cast<std::size_t>(layout.size()));
  const Storage gradients = device.memory().allocate(static_cast<std::size_t>(layout.size()));

  make_optimizer(config_of(GetParam()), layout, device)
      ->step(parameters.span(), gradients.span(), rate, scale);

  for (std::size_t i = 0; i < parameters.size(); ++i) EXPECT_EQ(parameters.span().address()[i], 0.0F);
}

TEST_P(EveryOptimizer, NamesItsSlots) {
  PlainDevice device;
  const std::string kind = GetParam();

  std::vector<std::string> names;
  const auto optimizer = make_optimizer(config_of(GetParam()), small_layout(), device);
  for (const OptimizerSlot& slot : optimizer->slots()) {
    names.push_back(slot.name);
    EXPECT_EQ(slot.values.size(), 32U);
  }

  std::vector<std::string> expected = {"momentum"};
  if (kind == "sgd") expected = {};
  if (kind == "adagrad") expected = {"adagrad_sum"};
  if (kind.starts_with("adam") || kind == "lamb") expected = {"adam_m", "adam_v"};
  EXPECT_EQ(names, expected);
}

/// One parameter of 1 after `count` steps with the gradient 0.5, without decay.
double after_equal_steps(const char* kind, int count) {
  PlainDevice device;
  ArenaLayout layout;
  layout.add("x", {1}, ParameterKind::weight);
  OptimizerConfig config = config_of(kind);
  config.weight_decay = 0.0;
  Storage parameters = device.memory().allocate(16);
  Storage gradients = device.memory().allocate(16);
  parameters.span().address()[0] = 1.0F;
  gradients.span().address()[0] = 0.5F;
  const auto optimizer = make_optimizer(config, layout, device);
  for (int step = 0; step < count; ++step) optimizer->step(parameters.span(), gradients.span(), 0.01, 1.0);
  return parameters.span().address()[0];
}

TEST(Optimizer, SumsEqualStepsAsItsRecurrenceSays) {
  constexpr int count = 10;
  // Momentum: v_n = g (1 − μⁿ) / (1 − μ). Adam: m̂ / √v̂ = 1. Adagrad: g / √(n g²) = 1 / √n.
  double velocities = 0.0;
  double roots = 0.0;
  for (int n = 1; n <= count; ++n) {
    velocities += 0.5 * (1.0 - std::pow(0.8, n)) / 0.2;
    roots += 1.0 / std::sqrt(n);
  }
  const double rounding = 10.0 * count * std::numeric_limits<float>::epsilon();

  EXPECT_TRUE(test::within(after_equal_steps("sgd", count), 1.0 - 0.01 * 0.5 * count, rounding));
  EXPECT_TRUE(test::within(after_equal_steps("momentum", count), 1.0 - 0.01 * velocities, rounding));
  EXPECT_TRUE(test::within(after_equal_steps("adam", count), 1.0 - 0.01 * count, rounding));
  EXPECT_TRUE(test::within(after_equal_steps("adagrad", count), 1.0 - 0.01 * roots, rounding));
}

TEST(Optimizer, LarsAndLambUsePlainRatesForTensorsOfZero) {
  PlainDevice device;
  ArenaLayout layout;
  layout.add("x", {1}, ParameterKind::weight);
  Storage gradients = device.memory().allocate(16);
  gradients.span().address()[0] = 0.5F;

  for (const char* kind : {"lars", "lamb"}) {
    Storage parameters = device.memory().allocate(16);
    make_optimizer(config_of(kind), layout, device)->step(parameters.span(), gradients.span(), 0.01, 1.0);
    // LARS: lr · g. LAMB: lr · m̂ / √v̂ = lr.
    const float expected = std::string(kind) == "lars" ? -0.005F : -0.01F;
    EXPECT_TRUE(test::within(parameters.span().address()[0], expected, 16 * test::float_rounding)) << kind;
  }
}

TEST(Optimizer, RefusesAnUnknownKindAndUnequalArenas) {
  PlainDevice device;
  Storage values = device.memory().allocate(32);

  EXPECT_THROW(make_optimizer(config_of("sgdd"), small_layout(), device), InternalError);
  EXPECT_THROW(make_optimizer(config_of("sgd"), small_layout(), device)
                   ->step(values.span(), values.span().subspan(0, 16), rate, scale),
               InternalError);
}

}  // namespace
}  // namespace flotilla
