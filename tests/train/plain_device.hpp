// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <span>

#include "kernels/device.hpp"
#include "kernels/error.hpp"
#include "kernels/host_device.hpp"
#include "kernels/host_memory.hpp"

namespace flotilla {

/// The flat operations as their declarations spell them, so that what optimizers add to them
/// is tested without a device of the kernels.
class PlainFlatMath : public FlatMath, public FlatUpdates {
 public:
  void fill(DeviceSpan<float>, float) override { refuse(); }
  void copy(DeviceSpan<const float>, DeviceSpan<float>) override { refuse(); }
  void scale(DeviceSpan<float>, float) override { refuse(); }
  void axpy(float, DeviceSpan<const float>, DeviceSpan<float>) override { refuse(); }
  bool all_finite(DeviceSpan<const float>) override { return refuse(), false; }
  void pack_sums(DeviceSpan<const float>, DeviceSpan<const float>, DeviceSpan<const float>,
                 DeviceSpan<double>) override {
    refuse();
  }
  void unpack_sums(DeviceSpan<const double>, DeviceSpan<const float>, std::int64_t, DeviceSpan<float>,
                   DeviceSpan<float>) override {
    refuse();
  }

  double sum_of_squares(DeviceSpan<const float> x) override {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += double{x.address()[i]} * x.address()[i];
    return sum;
  }
  void norms(DeviceSpan<const float> x, std::span<const FlatRange> ranges, std::span<double> norms) override {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto offset = static_cast<std::size_t>(ranges[i].offset);
      norms[i] = std::sqrt(sum_of_squares(x.subspan(offset, static_cast<std::size_t>(ranges[i].count))));
    }
  }

  void update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) override {
    std::visit([&](const auto& one) { plain(in, one, state); }, rule);
  }

 private:
  [[noreturn]] static void refuse() { throw InternalError("no optimizer needs this"); }
  static std::size_t end_of(const FlatRange& range) {
    return static_cast<std::size_t>(range.offset + range.count);
  }
  static void plain(const UpdateInput& in, const rules::Sgd&, const UpdateState&) {
    each(in, [](std::size_t, float& p, float g, float lr) { p -= lr * g; });
  }
  static void plain(const UpdateInput& in, const rules::Momentum& rule, const UpdateState& state) {
    each(in, [&](std::size_t i, float& p, float g, float lr) {
      float& v = state[0].address()[i];
      v = rule.mu * v + g;
      p -= lr * v;
    });
  }
  static void plain(const UpdateInput& in, const rules::Nesterov& rule, const UpdateState& state) {
    each(in, [&](std::size_t i, float& p, float g, float lr) {
      float& v = state[0].address()[i];
      v = rule.mu * v + g;
      p -= lr * (g + rule.mu * v);
    });
  }
  static void plain(const UpdateInput& in, const rules::Lars& rule, const UpdateState& state) {
    each(in, [&](std::size_t i, float& p, float g, float lr) {
      float& v = state[0].address()[i];
      v = rule.mu * v + lr * g;
      p -= v;
    });
  }
  static void plain(const UpdateInput& in, const rules::Adam& rule, const UpdateState& state) {
    each(in, [&](std::size_t i, float& p, float g, float lr) {
      p -= lr * adam_direction(rule, state[0].address()[i], state[1].address()[i], g, in.step);
    });
  }
  static void plain(const UpdateInput& in, const rules::LambDirection& rule, const UpdateState& state) {
    for (const FlatRange& range : in.ranges) {
      for (auto i = static_cast<std::size_t>(range.offset); i < end_of(range); ++i) {
        const float g = in.gradient_scale * in.gradients.address()[i];
        rule.direction.address()[i] =
            adam_direction(rule, state[0].address()[i], state[1].address()[i], g, in.step) +
            range.weight_decay * in.parameters.address()[i];
      }
    }
  }
  static void plain(const UpdateInput& in, const rules::Adagrad& rule, const UpdateState& state) {
    each(in, [&](std::size_t i, float& p, float g, float lr) {
      float& a = state[0].address()[i];
      a += g * g;
      p -= lr * g / (std::sqrt(a) + rule.epsilon);
    });
  }
  static float adam_direction(const rules::Adam& rule, float& m, float& v, float g, std::int64_t step) {
    m = rule.beta1 * m + (1.0F - rule.beta1) * g;
    v = rule.beta2 * v + (1.0F - rule.beta2) * g * g;
    const auto t = static_cast<float>(step);
    return m / (1.0F - std::pow(rule.beta1, t)) /
           (std::sqrt(v / (1.0F - std::pow(rule.beta2, t))) + rule.epsilon);
  }
  template <class Rule>
  static void each(const UpdateInput& in, Rule rule) {
    for (const FlatRange& range : in.ranges) {
      const float lr = in.learning_rate * range.rate_factor;
      for (auto i = static_cast<std::size_t>(range.offset); i < end_of(range); ++i) {
        float& p = in.parameters.address()[i];
        float g = in.gradient_scale * in.gradients.address()[i];
        if (in.decay == Decay::coupled) g += range.weight_decay * p;
        const float before = p;
        rule(i, p, g, lr);
        if (in.decay == Decay::decoupled) p -= lr * range.weight_decay * before;
      }
    }
  }
};

class PlainDevice : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  DeviceMemory& memory() override { return memory_; }
  DeviceQueue& queue() override { return queue_; }
  FlatMath& flat() override { return flat_; }
  FlatUpdates& updates() override { return flat_; }

  Tensors& tensors() override { refuse(); }
  ImageOperations& images() override { refuse(); }
  Layers& layers() override { refuse(); }

 protected:
  DeviceInfo info_{.description = "test double", .shares_host_memory = true};

 private:
  [[noreturn]] static void refuse() { throw InternalError("no optimizer needs this"); }
  HostMemory memory_;
  HostQueue queue_{memory_};
  PlainFlatMath flat_;
};

}  // namespace flotilla
