// SPDX-License-Identifier: Apache-2.0
#include "kernels/row_update.hpp"

#include <algorithm>
#include <bit>

#include "kernels/error.hpp"
#include "kernels/flat/host_sweep.hpp"
#include "kernels/flat/rules.hpp"
#include "kernels/flat/update_checks.hpp"

namespace flotilla {

namespace {

// Rows lie scattered: their lines are fetched while those before them are computed.
constexpr std::size_t rows_ahead = 12;
constexpr std::size_t line_floats = 16;

void prefetch(const float* row, std::size_t floats) {
  for (std::size_t i = 0; i < floats; i += line_floats) __builtin_prefetch(row + i, 1);
}

/// `place(rule, slots)` sets the addresses of a row's state in the rule.
template <class Rule, class Place>
void update(const RowRule& constants, const RowUpdate& in, Rule rule, const Place& place) {
  flat::set_constants(rule.in, in.gradient_scale, in.learning_rate, constants.decay, constants.weight_decay);
  const std::size_t row_floats = in.width * (1 + state_slots(constants.kind));
  const std::size_t rows = in.rows.size();
  for (std::size_t i = 0; i < std::min(rows, rows_ahead); ++i) prefetch(in.rows[i], row_floats);
  for (std::size_t i = 0; i < rows; ++i) {
    if (i + rows_ahead < rows) prefetch(in.rows[i + rows_ahead], row_floats);
    rule.in.p = in.rows[i];
    rule.in.g = in.gradients[i];
    place(rule, in.rows[i] + in.width);
    flat::sweep(rule, 0, static_cast<std::int64_t>(in.width));
  }
}

}  // namespace

std::size_t state_slots(RowRuleKind kind) {
  switch (kind) {
    case RowRuleKind::sgd: return 0;
    case RowRuleKind::momentum:
    case RowRuleKind::nesterov:
    case RowRuleKind::adagrad: return 1;
    case RowRuleKind::adam: return 2;
  }
  throw InternalError(cat("there is no rule ", static_cast<int>(kind)));
}

void update_rows(const RowRule& rule, const RowUpdate& in) {
  require(in.rows.size() == in.gradients.size(), in.gradients.size(), " gradients for ", in.rows.size(),
          " rows");
  const auto velocity = [](auto& own, float* slots) { own.v = slots; };
  switch (rule.kind) {
    case RowRuleKind::sgd: return update(rule, in, flat::Sgd{}, [](flat::Sgd&, float*) {});
    case RowRuleKind::momentum:
      return update(rule, in, flat::Momentum{.in = {}, .v = nullptr, .mu = rule.momentum}, velocity);
    case RowRuleKind::nesterov:
      return update(rule, in, flat::Nesterov{.in = {}, .v = nullptr, .mu = rule.momentum}, velocity);
    case RowRuleKind::adam:
      return update(
          rule, in,
          flat::Adam{.in = {}, .moments = flat::moments(rule.beta1, rule.beta2, rule.epsilon, in.step)},
          [&](flat::Adam& own, float* slots) {
            own.moments.m = slots;
            own.moments.v = slots + in.width;
          });
    case RowRuleKind::adagrad:
      require(rule.epsilon > 0.0F, "epsilon must be positive, got ", rule.epsilon);
      return update(rule, in, flat::Adagrad{.in = {}, .a = nullptr, .epsilon = rule.epsilon},
                    [](flat::Adagrad& own, float* slots) { own.a = slots; });
  }
}

bool finite(std::span<const float> values) {
  // NaN and the infinities have all bits of the exponent set.
  constexpr std::uint32_t exponent = 0x7F800000U;
  std::uint32_t bad = 0;
  for (const float value : values)
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & exponent) == exponent);
  return bad == 0;
}

}  // namespace flotilla
