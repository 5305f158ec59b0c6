// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/flat.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"
#include "kernels/reference/tagged_memory.hpp"

namespace flotilla {

namespace {

using reference::host;

/// One value of an update: where it lies, its parameter and the gradient, both as given and after decay, and
/// the rate and decay of its range.
struct Value {
  std::size_t at;
  double rate;
  double decay;
  double given_parameter;
  double given_gradient;   ///< Gradient after scaling
  double parameter = 0.0;  ///< Parameter after decoupled decay
  double gradient = 0.0;   ///< Gradient after scaling and coupled decay
};

Value value_at(const UpdateInput& in, const FlatRange& range, std::size_t at) {
  Value value{.at = at,
              .rate = double{in.learning_rate} * double{range.rate_factor},
              .decay = double{range.weight_decay},
              .given_parameter = double{host(in.parameters)[at]},
              .given_gradient = double{in.gradient_scale} * double{host(in.gradients)[at]}};
  value.parameter = value.given_parameter;
  value.gradient = value.given_gradient;
  if (in.decay == Decay::coupled) value.gradient += value.decay * value.parameter;
  if (in.decay == Decay::decoupled) value.parameter -= value.rate * value.decay * value.parameter;
  return value;
}

/// m ← β m + (1 − β) value; returns m corrected for bias.
double moment(float& m, double beta, double value, std::int64_t step) {
  m = static_cast<float>(beta * double{m} + (1.0 - beta) * value);
  return double{m} / (1.0 - std::pow(beta, static_cast<double>(step)));
}

/// The formulas of kernels/flat_updates.hpp: each updates the state of one value and returns its new
/// parameter.
struct Formulas {
  const UpdateState& state;
  std::int64_t step;

  double operator()(const rules::Sgd&, const Value& v) const { return v.parameter - v.rate * v.gradient; }
  double operator()(const rules::Momentum& rule, const Value& v) const {
    return v.parameter - v.rate * velocity(rule.mu, v, v.gradient);
  }
  double operator()(const rules::Nesterov& rule, const Value& v) const {
    return v.parameter - v.rate * (v.gradient + double{rule.mu} * velocity(rule.mu, v, v.gradient));
  }
  double operator()(const rules::Lars& rule, const Value& v) const {
    return v.parameter - velocity(rule.mu, v, v.rate * v.gradient);
  }
  double operator()(const rules::Adam& rule, const Value& v) const {
    return v.parameter - v.rate * direction(rule, v, v.gradient);
  }
  double operator()(const rules::LambDirection& rule, const Value& v) const {
    host(rule.direction)[v.at] =
        static_cast<float>(direction(rule, v, v.given_gradient) + v.decay * v.given_parameter);
    return v.given_parameter;
  }
  double operator()(const rules::Adagrad& rule, const Value& v) const {
    const double sum = double{host(state[0])[v.at]} + v.gradient * v.gradient;
    host(state[0])[v.at] = static_cast<float>(sum);
    return v.parameter - v.rate * v.gradient / (std::sqrt(sum) + double{rule.epsilon});
  }

 private:
  double velocity(float mu, const Value& v, double change) const {
    const double velocity = double{mu} * double{host(state[0])[v.at]} + change;
    host(state[0])[v.at] = static_cast<float>(velocity);
    return velocity;
  }
  double direction(const rules::Adam& rule, const Value& v, double gradient) const {
    const double m = moment(host(state[0])[v.at], double{rule.beta1}, gradient, step);
    const double s = moment(host(state[1])[v.at], double{rule.beta2}, gradient * gradient, step);
    return m / (std::sqrt(s) + double{rule.epsilon});
  }
};

}  // namespace

void ReferenceFlat::fill(DeviceSpan<float> x, float value) {
  std::ranges::fill(host(x), value);
}

void ReferenceFlat::copy(DeviceSpan<const float> from, DeviceSpan<float> to) {
  require(from.size() == to.size(), "copy from ", from.size(), " to ", to.size(), " values");
  std::ranges::copy(host(from), host(to).begin());
}

void ReferenceFlat::scale(DeviceSpan<float> x, float factor) {
  for (float& value : host(x)) value *= factor;
}

void ReferenceFlat::axpy(float factor, DeviceSpan<const float> x, DeviceSpan<float> y) {
  require(x.size() == y.size(), "axpy from ", x.size(), " to ", y.size(), " values");
  for (std::size_t i = 0; i < x.size(); ++i) {
    host(y)[i] = static_cast<float>(double{host(y)[i]} + double{factor} * double{host(x)[i]});
  }
}

double ReferenceFlat::sum_of_squares(DeviceSpan<const float> x) {
  double sum = 0.0;
  for (const float value : host(x)) sum += double{value} * double{value};
  return sum;
}

void ReferenceFlat::norms(DeviceSpan<const float> x, std::span<const FlatRange> ranges,
                          std::span<double> norms) {
  require(ranges.size() == norms.size(), "norms of ", ranges.size(), " ranges into ", norms.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    norms[i] = std::sqrt(sum_of_squares(
        x.subspan(static_cast<std::size_t>(ranges[i].offset), static_cast<std::size_t>(ranges[i].count))));
  }
}

bool ReferenceFlat::all_finite(DeviceSpan<const float> x) {
  return std::ranges::all_of(host(x), [](float value) { return std::isfinite(value); });
}

void ReferenceFlat::pack_sums(DeviceSpan<const float> first, DeviceSpan<const float> second,
                              DeviceSpan<const float> shifts, DeviceSpan<double> sums) {
  const std::size_t count = first.size();
  require(second.size() == count && sums.size() == 2 * count, "sums of pairs of another number");
  for (std::size_t i = 0; i < count; ++i) {
    const double mean = host(first)[i];
    const double square = host(second)[i];
    const double off = shifts.empty() ? 0.0 : mean - double{host(shifts)[i]};
    host(sums)[i] = shifts.empty() ? mean : off;
    host(sums)[count + i] = square + off * off;
  }
}

void ReferenceFlat::unpack_sums(DeviceSpan<const double> sums, DeviceSpan<const float> shifts,
                                std::int64_t batches, DeviceSpan<float> first, DeviceSpan<float> second) {
  const std::size_t count = first.size();
  require(second.size() == count && sums.size() == 2 * count && batches > 0, "pairs of another number");
  const auto total = static_cast<double>(batches);
  for (std::size_t i = 0; i < count; ++i) {
    const double a = host(sums)[i];
    const double b = host(sums)[count + i];
    const double variance = std::max(0.0, b / total - a / total * (a / total));
    host(first)[i] = static_cast<float>(shifts.empty() ? a : double{host(shifts)[i]} + a / total);
    host(second)[i] = static_cast<float>(shifts.empty() ? b : variance);
  }
}

void ReferenceFlat::update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) {
  require(in.gradients.size() == in.parameters.size(), "gradients and parameters differ in size");
  require(in.halves.values.empty(), "the reference keeps no halves of parameters");
  const Formulas formulas{.state = state, .step = in.step};
  for (const FlatRange& range : in.ranges) {
    for (std::int64_t i = range.offset; i < range.offset + range.count; ++i) {
      const Value value = value_at(in, range, static_cast<std::size_t>(i));
      host(in.parameters)[value.at] =
          static_cast<float>(std::visit([&](const auto& one) { return formulas(one, value); }, rule));
    }
  }
}

}  // namespace flotilla
