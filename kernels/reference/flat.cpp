// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/flat.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"
#include "kernels/reference/tagged_memory.hpp"

namespace flotilla {

namespace {

using reference::host;

/// One value of an update: where it lies, its parameter, the gradient after scale and coupled decay, and the
/// rate of its range.
struct Value {
  std::size_t at;
  double parameter;
  double gradient;
  double rate;
  double decay;
};

/// Writes rule(value) into the parameters of every range, after decoupled decay.
template <class Rule>
void update(const UpdateInput& in, Rule rule) {
  require(in.gradients.size() == in.parameters.size(), "gradients and parameters differ in size");
  for (const FlatRange& range : in.ranges) {
    for (std::int64_t i = range.offset; i < range.offset + range.count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      float* const p = host(in.parameters).data() + k;
      const double decay = double{range.weight_decay};
      Value value{.at = k,
                  .parameter = double{*p},
                  .gradient = double{in.gradient_scale} * double{host(in.gradients)[k]},
                  .rate = double{in.learning_rate} * double{range.rate_factor},
                  .decay = decay};
      if (in.decay == Decay::coupled) value.gradient += decay * value.parameter;
      if (in.decay == Decay::decoupled) value.parameter -= value.rate * decay * value.parameter;
      *p = static_cast<float>(rule(value));
    }
  }
}

/// m ← β m + (1 − β) value; returns m corrected for bias.
double moment(float& m, double beta, double value, std::int64_t step) {
  m = static_cast<float>(beta * double{m} + (1.0 - beta) * value);
  return double{m} / (1.0 - std::pow(beta, static_cast<double>(step)));
}

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

void ReferenceFlat::sgd(const UpdateInput& in) {
  update(in, [](const Value& v) { return v.parameter - v.rate * v.gradient; });
}

void ReferenceFlat::momentum(const UpdateInput& in, DeviceSpan<float> velocity, float mu, bool nesterov) {
  update(in, [&](const Value& v) {
    const double speed = double{mu} * double{host(velocity)[v.at]} + v.gradient;
    host(velocity)[v.at] = static_cast<float>(speed);
    return v.parameter - v.rate * (nesterov ? v.gradient + double{mu} * speed : speed);
  });
}

void ReferenceFlat::lars(const UpdateInput& in, DeviceSpan<float> velocity, float mu) {
  update(in, [&](const Value& v) {
    const double speed = double{mu} * double{host(velocity)[v.at]} + v.rate * v.gradient;
    host(velocity)[v.at] = static_cast<float>(speed);
    return v.parameter - speed;
  });
}

void ReferenceFlat::adam(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second,
                         float beta1, float beta2, float epsilon, std::int64_t step) {
  update(in, [&](const Value& v) {
    const double m = moment(host(first)[v.at], double{beta1}, v.gradient, step);
    const double s = moment(host(second)[v.at], double{beta2}, v.gradient * v.gradient, step);
    return v.parameter - v.rate * m / (std::sqrt(s) + double{epsilon});
  });
}

void ReferenceFlat::lamb_direction(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second,
                                   float beta1, float beta2, float epsilon, std::int64_t step,
                                   DeviceSpan<float> direction) {
  // The decay is part of the direction, so it must not enter the gradient or the parameter.
  for (const FlatRange& range : in.ranges) {
    for (std::int64_t i = range.offset; i < range.offset + range.count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double gradient = double{in.gradient_scale} * double{host(in.gradients)[k]};
      const double m = moment(host(first)[k], double{beta1}, gradient, step);
      const double s = moment(host(second)[k], double{beta2}, gradient * gradient, step);
      host(direction)[k] = static_cast<float>(m / (std::sqrt(s) + double{epsilon}) +
                                              double{range.weight_decay} * double{host(in.parameters)[k]});
    }
  }
}

void ReferenceFlat::adagrad(const UpdateInput& in, DeviceSpan<float> accumulator, float epsilon) {
  update(in, [&](const Value& v) {
    const double sum = double{host(accumulator)[v.at]} + v.gradient * v.gradient;
    host(accumulator)[v.at] = static_cast<float>(sum);
    return v.parameter - v.rate * v.gradient / (std::sqrt(sum) + double{epsilon});
  });
}

}  // namespace flotilla
