// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/flat_state.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <utility>

#include "tests/kernels/values.hpp"
#include "tests/support/within.hpp"

namespace flotilla::test {

FlatState::FlatState(std::unique_ptr<Device> on, std::vector<FlatRange> of, std::int64_t size)
    : device(std::move(on)),
      ranges(std::move(of)),
      p(storage_of(*device, values(size, 1))),
      g(storage_of(*device, values(size, 2))),
      a(storage_of(*device, values(size, 3))) {
  std::vector<float> squares = values(size, 4);
  for (float& value : squares) value = std::abs(value);
  b = storage_of(*device, squares);
}

UpdateInput FlatState::input(Decay decay) {
  return {.parameters = p.span(),
          .gradients = g.span(),
          .ranges = ranges,
          .learning_rate = 0.125F,
          .gradient_scale = 0.5F,
          .decay = decay,
          .step = 3};
}

void FlatState::clear_padding() {
  for (Storage* const storage : {&p, &g, &a, &b}) {
    const std::vector<float> all = read(*device, *storage);
    std::vector<float> kept(all.size());
    for (const FlatRange& range : ranges)
      for (std::int64_t i = range.offset; i < range.offset + range.count; ++i)
        kept.at(static_cast<std::size_t>(i)) = all.at(static_cast<std::size_t>(i));
    device->memory().upload(kept, storage->span());
  }
}

const std::vector<FlatStep>& flat_steps() {
  const auto step = [](const UpdateRule& rule, bool squares) {
    return [=](FlatState& s, const UpdateInput& in) {
      s.updates().update(in, rule, {squares ? s.b.span() : s.a.span(), s.b.span()});
    };
  };
  constexpr rules::Adam adam{0.9F, 0.999F, 1e-3F};
  static const std::vector<FlatStep> all = {
      {"sgd", step(rules::Sgd{}, false)},
      {"momentum", step(rules::Momentum{0.9F}, false)},
      {"nesterov", step(rules::Nesterov{0.9F}, false)},
      {"lars", step(rules::Lars{0.9F}, false)},
      {"adam", step(adam, false)},
      {"lamb",
       [=](FlatState& s, const UpdateInput& in) {
         Storage direction = s.device->memory().allocate(s.p.size());
         step(rules::LambDirection{adam, direction.span()}, false)(s, in);
         s.flat().copy(direction.span(), s.p.span());
       }},
      {"adagrad", step(rules::Adagrad{1e-3F}, true)},
  };
  return all;
}

void expect_alike_after_two(const FlatStep& kind, Decay decay, FlatState& state, FlatState& oracle) {
  for (int repetition = 0; repetition < 2; ++repetition) {
    kind.step(state, state.input(decay));
    kind.step(oracle, oracle.input(decay));
  }

  const auto difference = [&](const Storage& one, const Storage& other) {
    return largest_difference(read(*state.device, one), read(*oracle.device, other));
  };
  EXPECT_TRUE(test::within(difference(state.p, oracle.p), 0.0, 2e-5)) << kind.name;
  EXPECT_TRUE(test::within(difference(state.a, oracle.a), 0.0, 2e-6)) << kind.name;
  EXPECT_TRUE(test::within(difference(state.b, oracle.b), 0.0, 2e-6)) << kind.name;
}

}  // namespace flotilla::test
