// SPDX-License-Identifier: Apache-2.0
#include "kernels/graphs/listed_flat.hpp"

#include <algorithm>

#include "kernels/flat/functors.hpp"

namespace flotilla {

namespace {

UpdateNumbers numbers_of(const UpdateInput& in, const UpdateRule& rule) {
  UpdateNumbers numbers{.learning_rate = in.learning_rate, .gradient_scale = in.gradient_scale};
  flat::with_functor(rule, in.step, [&](const auto& functor) {
    if constexpr (requires { functor.moments; }) {
      numbers.correction1 = functor.moments.correction1;
      numbers.correction2 = functor.moments.correction2;
    }
  });
  return numbers;
}

}  // namespace

void ListedFlat::fill(DeviceSpan<float> x, float value) {
  list_.add<&FlatMath::fill>(flat_, x, value);
}
void ListedFlat::copy(DeviceSpan<const float> from, DeviceSpan<float> to) {
  list_.add<&FlatMath::copy>(flat_, from, to);
}
void ListedFlat::scale(DeviceSpan<float> x, float factor) {
  list_.add<&FlatMath::scale>(flat_, x, factor);
}
void ListedFlat::axpy(float factor, DeviceSpan<const float> x, DeviceSpan<float> y) {
  list_.add<&FlatMath::axpy>(flat_, factor, x, y);
}
void ListedFlat::sum_rows(DeviceSpan<const float> rows, DeviceSpan<float> sums) {
  list_.add<&FlatMath::sum_rows>(flat_, rows, sums);
}
void ListedFlat::combine_moments(DeviceSpan<const float> rows, std::int64_t count,
                                 DeviceSpan<float> moments) {
  list_.add<&FlatMath::combine_moments>(flat_, rows, count, moments);
}

double ListedFlat::sum_of_squares(DeviceSpan<const float> x) {
  list_.submit();
  return flat_.sum_of_squares(x);
}
void ListedFlat::norms(DeviceSpan<const float> x, std::span<const FlatRange> ranges,
                       std::span<double> norms) {
  list_.submit();
  flat_.norms(x, ranges, norms);
}
bool ListedFlat::all_finite(DeviceSpan<const float> x) {
  list_.submit();
  return flat_.all_finite(x);
}

/// The first update of other ranges makes a table of them on the device: it is done now.
bool ListedFlat::are_new(const UpdateInput& in, Ranges& ranges) {
  if (std::ranges::equal(in.ranges, ranges.list)) return false;
  list_.submit();
  ranges.list.assign(in.ranges.begin(), in.ranges.end());
  ++ranges.seen;
  return true;
}

ListedFlat::Update ListedFlat::listed(const UpdateInput& in, const UpdateRule& rule, const Ranges& ranges) {
  flat::check_update(in);
  return {.parameters = in.parameters,
          .gradients = in.gradients,
          .decay = in.decay,
          .numbers = in.numbers != nullptr ? in.numbers : list_.number(numbers_of(in, rule)),
          .ranges = ranges.seen,
          .halves = in.halves};
}

void ListedFlat::update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) {
  if (are_new(in, ranges_)) return updates_.update(in, rule, state);
  list_.add<&ListedFlat::do_update>(*this, listed(in, rule, ranges_), rule, state);
}
void ListedFlat::update_by_norms(const UpdateInput& in, const TrustRatio& ratio, const UpdateRule& rule,
                                 const UpdateState& state) {
  if (are_new(in, norm_ranges_)) return updates_.update_by_norms(in, ratio, rule, state);
  list_.add<&ListedFlat::do_update_by_norms>(*this, listed(in, rule, norm_ranges_), ratio, rule, state);
}

/// The update's step does not matter: its corrections lie among the numbers.
UpdateInput ListedFlat::input(const Update& update, const Ranges& ranges) {
  return {.parameters = update.parameters,
          .gradients = update.gradients,
          .ranges = ranges.list,
          .decay = update.decay,
          .numbers = update.numbers,
          .halves = update.halves};
}

void ListedFlat::do_update(const Update& update, const UpdateRule& rule, const UpdateState& state) {
  updates_.update(input(update, ranges_), rule, state);
}
void ListedFlat::do_update_by_norms(const Update& update, const TrustRatio& ratio, const UpdateRule& rule,
                                    const UpdateState& state) {
  updates_.update_by_norms(input(update, norm_ranges_), ratio, rule, state);
}

}  // namespace flotilla
