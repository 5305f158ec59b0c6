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

/// The first update of other ranges makes a table of them on the device: it is done now. With LARS and LAMB,
/// whose ranges carry norms, every one is.
bool ListedFlat::new_ranges(const UpdateInput& in) {
  if (std::ranges::equal(in.ranges, ranges_)) return false;
  list_.submit();
  ranges_.assign(in.ranges.begin(), in.ranges.end());
  ++ranges_seen_;
  return true;
}

void ListedFlat::update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) {
  if (new_ranges(in)) return updates_.update(in, rule, state);
  flat::check_update(in);
  const Update update{.parameters = in.parameters,
                      .gradients = in.gradients,
                      .decay = in.decay,
                      .numbers = in.numbers != nullptr ? in.numbers : list_.number(numbers_of(in, rule)),
                      .ranges = ranges_seen_};
  list_.add<&ListedFlat::do_update>(*this, update, rule, state);
}

/// The update's step does not matter: its corrections lie among the numbers.
void ListedFlat::do_update(const Update& update, const UpdateRule& rule, const UpdateState& state) {
  updates_.update({.parameters = update.parameters,
                   .gradients = update.gradients,
                   .ranges = ranges_,
                   .decay = update.decay,
                   .numbers = update.numbers},
                  rule, state);
}

}  // namespace flotilla
