// SPDX-License-Identifier: Apache-2.0
#include "kernels/graphs/listed_flat.hpp"

#include <algorithm>

#include "kernels/flat/update_checks.hpp"

namespace flotilla {

namespace {

UpdateNumbers numbers_of(const UpdateInput& in) {
  return {.learning_rate = in.learning_rate, .gradient_scale = in.gradient_scale};
}

UpdateNumbers numbers_of(const UpdateInput& in, const flat::Moments& moments) {
  return {.learning_rate = in.learning_rate,
          .gradient_scale = in.gradient_scale,
          .correction1 = moments.correction1,
          .correction2 = moments.correction2};
}

constexpr std::int64_t any_step = 1;  // Its corrections lie among the numbers.

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

ListedFlat::Update ListedFlat::listed(const UpdateInput& in, const UpdateNumbers& numbers) {
  flat::check_update(in);
  return {.parameters = in.parameters,
          .gradients = in.gradients,
          .decay = in.decay,
          .numbers = in.numbers != nullptr ? in.numbers : list_.number(numbers),
          .ranges = ranges_seen_};
}

UpdateInput ListedFlat::unlisted(const Update& update) const {
  return {.parameters = update.parameters,
          .gradients = update.gradients,
          .ranges = ranges_,
          .decay = update.decay,
          .numbers = update.numbers};
}

void ListedFlat::sgd(const UpdateInput& in) {
  if (new_ranges(in)) return updates_.sgd(in);
  list_.add<&ListedFlat::list_sgd>(*this, listed(in, numbers_of(in)));
}
void ListedFlat::list_sgd(const Update& update) {
  updates_.sgd(unlisted(update));
}

void ListedFlat::momentum(const UpdateInput& in, DeviceSpan<float> velocity, float mu, bool nesterov) {
  if (new_ranges(in)) return updates_.momentum(in, velocity, mu, nesterov);
  list_.add<&ListedFlat::list_momentum>(*this, listed(in, numbers_of(in)), velocity, mu, nesterov);
}
void ListedFlat::list_momentum(const Update& update, DeviceSpan<float> velocity, float mu, bool nesterov) {
  updates_.momentum(unlisted(update), velocity, mu, nesterov);
}

void ListedFlat::lars(const UpdateInput& in, DeviceSpan<float> velocity, float mu) {
  if (new_ranges(in)) return updates_.lars(in, velocity, mu);
  list_.add<&ListedFlat::list_lars>(*this, listed(in, numbers_of(in)), velocity, mu);
}
void ListedFlat::list_lars(const Update& update, DeviceSpan<float> velocity, float mu) {
  updates_.lars(unlisted(update), velocity, mu);
}

void ListedFlat::adam(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second, float beta1,
                      float beta2, float epsilon, std::int64_t step) {
  if (new_ranges(in)) return updates_.adam(in, first, second, beta1, beta2, epsilon, step);
  const UpdateNumbers numbers = numbers_of(in, flat::moments(beta1, beta2, epsilon, step));
  list_.add<&ListedFlat::list_adam>(*this, listed(in, numbers),
                                    Moments{first, second, beta1, beta2, epsilon});
}
void ListedFlat::list_adam(const Update& update, const Moments& m) {
  updates_.adam(unlisted(update), m.first, m.second, m.beta1, m.beta2, m.epsilon, any_step);
}

void ListedFlat::lamb_direction(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second,
                                float beta1, float beta2, float epsilon, std::int64_t step,
                                DeviceSpan<float> direction) {
  if (new_ranges(in))
    return updates_.lamb_direction(in, first, second, beta1, beta2, epsilon, step, direction);
  const UpdateNumbers numbers = numbers_of(in, flat::moments(beta1, beta2, epsilon, step));
  list_.add<&ListedFlat::list_lamb_direction>(*this, listed(in, numbers),
                                              Moments{first, second, beta1, beta2, epsilon}, direction);
}
void ListedFlat::list_lamb_direction(const Update& update, const Moments& m, DeviceSpan<float> direction) {
  updates_.lamb_direction(unlisted(update), m.first, m.second, m.beta1, m.beta2, m.epsilon, any_step,
                          direction);
}

void ListedFlat::adagrad(const UpdateInput& in, DeviceSpan<float> accumulator, float epsilon) {
  if (new_ranges(in)) return updates_.adagrad(in, accumulator, epsilon);
  list_.add<&ListedFlat::list_adagrad>(*this, listed(in, numbers_of(in)), accumulator, epsilon);
}
void ListedFlat::list_adagrad(const Update& update, DeviceSpan<float> accumulator, float epsilon) {
  updates_.adagrad(unlisted(update), accumulator, epsilon);
}

}  // namespace flotilla
