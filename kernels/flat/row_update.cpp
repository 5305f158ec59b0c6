// SPDX-License-Identifier: Apache-2.0
#include "kernels/row_update.hpp"

#include <algorithm>
#include <bit>

#include "kernels/error.hpp"
#include "kernels/flat/functors.hpp"
#include "kernels/flat/host_sweep.hpp"

namespace flotilla {

namespace {

// Rows lie scattered: their lines are fetched while those before them are computed.
constexpr std::size_t rows_ahead = 12;
constexpr std::size_t line_floats = 16;

void prefetch(const float* row, std::size_t floats) {
  for (std::size_t i = 0; i < floats; i += line_floats) __builtin_prefetch(row + i, 1);
}

template <class Functor>
void update(const RowRule& rule, const RowUpdate& in, Functor functor) {
  rules::set_constants(functor.in, in.gradient_scale, in.learning_rate, rule.decay, rule.weight_decay);
  const std::size_t row_floats = in.width * (1 + rule.slots());
  const std::size_t rows = in.rows.size();
  for (std::size_t i = 0; i < std::min(rows, rows_ahead); ++i) prefetch(in.rows[i], row_floats);
  for (std::size_t i = 0; i < rows; ++i) {
    if (i + rows_ahead < rows) prefetch(in.rows[i + rows_ahead], row_floats);
    functor.in.p = in.rows[i];
    functor.in.g = in.gradients[i];
    rules::StateAddresses arrays{};
    for (std::size_t k = 0; k < functor.rule.state.size(); ++k) arrays[k] = in.rows[i] + (1 + k) * in.width;
    functor.set_state(arrays);
    flat::sweep(functor, 0, static_cast<std::int64_t>(in.width));
  }
}

}  // namespace

void update_rows(const RowRule& rule, const RowUpdate& in) {
  require(in.rows.size() == in.gradients.size(), in.gradients.size(), " gradients for ", in.rows.size(),
          " rows");
  require(!std::holds_alternative<rules::LambDirection>(rule.update), "rows have no norms of tensors");
  flat::with_functor(rule.update, in.step, [&](const auto& functor) { update(rule, in, functor); });
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
