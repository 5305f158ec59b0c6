// SPDX-License-Identifier: Apache-2.0
// One training step of an MLP 784-128-128-10 on the device "cpu", operation by operation, each compared with
// the matrix products in it. The parts and the whole step take turns in short rounds, because the speed of
// shared machines changes within seconds. Run: kernels_bench [threads [batch [seconds]]]
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/linear.hpp"
#include "kernels/device.hpp"
#include "kernels/float_values.hpp"
#include "kernels/random.hpp"
#include "tests/bench/timing.hpp"

namespace flotilla {
namespace {

using bench::fastest;
using bench::median;
using bench::now;

/// Something to time: an operation of the device, or the bare matrix product inside it.
struct Part {
  std::string name;
  bool in_step = true;
  std::function<void()> run;
  std::vector<double> times;
};

void fill(DeviceSpan<float> values, std::uint64_t stream) {
  Random random(1, random_data, stream);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values.address()[i] = static_cast<float>(0.1 * (random.uniform() - 0.5));
  }
}

/// Buffers and plan of one layer.
struct Layer {
  LinearSpec spec;
  std::unique_ptr<Linear> plan;
  DeviceSpan<float> w, b, dw, db;
  Tensor y, dy;
};

class Step {
 public:
  Step(Device& device, std::int64_t batch) : device_(device), batch_(batch) {
    const std::int64_t widths[] = {784, 128, 128, 10};
    std::int64_t size = 0;
    for (int l = 0; l < 3; ++l) size += (widths[l] * widths[l + 1] + widths[l + 1] + 31) / 16 * 16;
    for (Storage* storage : {&p_, &g_, &m_, &v_})
      *storage = device.memory().allocate(static_cast<std::size_t>(size));
    fill(p_.span(), 1);
    x_ = device.tensors().zeros({batch, widths[0]});
    fill(float_values(x_), 2);
    std::size_t at = 0;
    for (int l = 0; l < 3; ++l) {
      const LinearSpec spec{.batch = batch,
                            .in = widths[l],
                            .out = widths[l + 1],
                            .activation = l < 2 ? Activation::tanh : Activation::identity};
      auto plan = device.layers().linear(spec);
      const auto weight = static_cast<std::size_t>(plan->weight_size());
      const auto bias = static_cast<std::size_t>(spec.out);
      const std::size_t bias_at = at + weight;
      layers_.push_back({spec, std::move(plan), p_.span().subspan(at, weight),
                         p_.span().subspan(bias_at, bias), g_.span().subspan(at, weight),
                         g_.span().subspan(bias_at, bias), device.tensors().zeros({batch, spec.out}),
                         device.tensors().zeros({batch, spec.out})});
      ranges_.push_back({.offset = static_cast<std::int64_t>(at), .count = spec.in * spec.out});
      ranges_.push_back({.offset = static_cast<std::int64_t>(bias_at), .count = spec.out});
      at = (bias_at + bias + 15) / 16 * 16;
    }
    loss_ = device.layers().softmax_loss({.batch = batch, .classes = 10});
    sums_ = device.memory().allocate(loss_sums);
    labels_.assign(static_cast<std::size_t>(batch), 3);
    add_parts();
  }

  /// Each part for 2 ms, then whole steps for 20 ms.
  void round() {
    for (Part& part : parts_) {
      for (double end = now() + 0.002, after = 0.0; after < end;) {
        const double before = now();
        part.run();
        after = now();
        part.times.push_back(after - before);
      }
    }
    for (double end = now() + 0.02, after = 0.0; after < end;) {
      const double before = now();
      for (Part& part : parts_) {
        if (part.in_step) part.run();
      }
      after = now();
      steps_.push_back(after - before);
    }
  }

  void print() const {
    double all = 0.0;
    double products = 0.0;
    for (const Part& part : parts_) {
      (part.in_step ? all : products) += fastest(part.times);
      std::printf("  %-28s fastest %7.1f us, median %7.1f us\n", part.name.c_str(), fastest(part.times) * 1e6,
                  median(part.times) * 1e6);
    }
    std::printf(
        "%s, batch %ld: sum of operations %.0f us, matrix products in them %.0f us; step fastest %.0f us, "
        "median %.0f us = %.0f samples/s\n",
        device_.info().description.c_str(), static_cast<long>(batch_), all * 1e6, products * 1e6,
        fastest(steps_) * 1e6, median(steps_) * 1e6, static_cast<double>(batch_) / median(steps_));
  }

 private:
  void add(std::string name, std::function<void()> run) {
    parts_.push_back({.name = std::move(name), .in_step = true, .run = std::move(run), .times = {}});
  }
  void add_product(std::function<void()> run) {
    parts_.push_back({.name = "  its matrix products", .in_step = false, .run = std::move(run), .times = {}});
  }

  void add_parts() {
    for (std::size_t l = 0; l < 3; ++l) {
      Layer& layer = layers_[l];
      Tensor& x = l == 0 ? x_ : layers_[l - 1].y;
      add("forward " + std::to_string(l + 1), [&] { layer.plan->forward(x, {layer.w, layer.b}, layer.y); });
      add_product([&] {
        matrix_product(device_.info().threads, batch_, layer.spec.out, layer.spec.in,
                       {float_values(x).address()}, {layer.w.address()}, 0.0F,
                       float_values(layer.y).address());
      });
    }
    const Targets targets{.labels = labels_, .valid = batch_};
    add("loss forward", [this, targets] { loss_->forward(layers_[2].y, targets, sums_.span()); });
    add("loss backward", [this, targets] {
      loss_->backward(layers_[2].y, targets, 1.0F / static_cast<float>(batch_), layers_[2].dy);
    });
    for (std::size_t l = 3; l-- > 0;) {
      Layer& layer = layers_[l];
      Tensor& x = l == 0 ? x_ : layers_[l - 1].y;
      Tensor* dx = l == 0 ? nullptr : &layers_[l - 1].dy;
      add("backward " + std::to_string(l + 1), [&layer, &x, dx] {
        layer.plan->backward(x, layer.y, {layer.w, layer.b}, layer.dy, {layer.dw, layer.db}, dx);
      });
      add_product([this, &layer, &x, dx] {
        const float* const dz = float_values(layer.dy).address();
        matrix_product(device_.info().threads, layer.spec.in, layer.spec.out, batch_,
                       {float_values(x).address(), true}, {dz}, 0.0F, layer.dw.address());
        if (dx == nullptr) return;
        matrix_product(device_.info().threads, batch_, layer.spec.in, layer.spec.out, {dz},
                       {layer.w.address(), true}, 0.0F, float_values(*dx).address());
      });
    }
    add("adam", [this] {
      device_.updates().update({.parameters = p_.span(),
                                .gradients = g_.span(),
                                .ranges = ranges_,
                                .learning_rate = 1e-3F,
                                .step = ++adam_steps_},
                               rules::Adam{}, {m_.span(), v_.span()});
    });
  }

  Device& device_;
  std::int64_t batch_;
  std::int64_t adam_steps_ = 0;
  Storage p_, g_, m_, v_, sums_;
  Tensor x_;
  std::vector<Layer> layers_;
  std::vector<FlatRange> ranges_;
  std::unique_ptr<Loss> loss_;
  std::vector<std::int32_t> labels_;
  std::vector<Part> parts_;
  std::vector<double> steps_;
};

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  flotilla::bench::take_rounds<flotilla::Step>(argc, argv, 64);
}
