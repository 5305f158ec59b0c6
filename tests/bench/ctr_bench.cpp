// SPDX-License-Identifier: Apache-2.0
// One step of a CTR-DNN (13 dense values, 26 slots, embeddings of width 10, layers 400-400-400-2) on the
// device "cpu", less data, servers and optimizer: its parts, and for comparison the bare matrix products in
// them. All take turns in short rounds, because the speed of shared machines changes within seconds. Run:
// ctr_bench [threads [batch [seconds]]]
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/linear.hpp"
#include "kernels/float_values.hpp"
#include "kernels/random.hpp"
#include "models/embedding_bags.hpp"
#include "models/listed_models.hpp"
#include "tests/bench/timing.hpp"

namespace flotilla {
namespace {

using bench::fastest;
using bench::median;
using bench::now;

/// One sample of a million ids of a slot, as clicks have them: the n-th most frequent with a share of about
/// 1/n.
std::uint64_t frequent_id(Random& random) {
  return static_cast<std::uint64_t>(std::exp(random.uniform() * std::log(1e6)));
}

struct Part {
  std::string name;
  double flop = 0.0;
  bool in_step = true;
  std::function<void()> run;
  std::vector<double> times;
};

class Step {
 public:
  Step(Device& device, std::int64_t batch)
      : device_(device),
        bags_of_({.batch = batch, .dense = 13, .slots = 26, .width = 10}),
        found_(26, true),
        network_(make_layer_network(
            device,
            plan_layers(mlp_layers({.widths = {400, 400, 400}, .outputs = 2, .activation = Activation::relu}),
                        {bags_of_.spec().features()}),
            {.batch = batch,
             .input_gradient = true,
             .initializer = {.kind = Initializer::Kind::lecun_normal}})) {
    Random random(1, random_data);
    for (std::int64_t bag = 0; bag < batch * 26; ++bag) {
      ids_.push_back(frequent_id(random));
      ends_.push_back(static_cast<std::int32_t>(ids_.size()));
    }
    dense_.resize(static_cast<std::size_t>(batch * 13));
    for (float& value : dense_) value = static_cast<float>(random.uniform());
    labels_.assign(static_cast<std::size_t>(batch), 1);
    found_.find(bags());
    rows_.resize(found_.keys().size() * 10);
    for (float& value : rows_) value = static_cast<float>(0.1 * random.normal());
    drows_.resize(rows_.size());
    const auto parameters = static_cast<std::size_t>(network_->layout().size());
    parameters_ = device.memory().allocate(parameters);
    gradients_ = device.memory().allocate(parameters);
    sums_ = device.memory().allocate(loss_sums);
    features_ = device.memory().allocate(static_cast<std::size_t>(batch * bags_of_.spec().features()));
    network_->bind({.parameters = parameters_.span(),
                    .gradients = gradients_.span(),
                    .statistics = {},
                    .step_statistics = {}});
    network_->parameters().initialise(device.memory(), 1, parameters_.span());
    add_parts();
    add_products();
  }

  /// Each part once, then whole steps.
  void round() {
    for (int i = 0; i < 3; ++i)
      for (Part& part : parts_) {
        const double before = now();
        part.run();
        part.times.push_back(now() - before);
      }
    for (int i = 0; i < 3; ++i) {
      const double before = now();
      for (Part& part : parts_)
        if (part.in_step) part.run();
      steps_.push_back(now() - before);
    }
  }

  void print() const {
    for (const Part& part : parts_) {
      std::printf("  %-28s median %8.1f us, fastest %8.1f us", part.name.c_str(), median(part.times) * 1e6,
                  fastest(part.times) * 1e6);
      if (part.flop > 0.0) std::printf(", %6.1f GFLOP/s", part.flop / fastest(part.times) * 1e-9);
      std::printf("\n");
    }
    std::printf("%s, batch %ld, %zu ids, %zu rows\n", device_.info().description.c_str(),
                static_cast<long>(network_->batch()), ids_.size(), found_.keys().size());
    print_rates("medians", median);
    print_rates("fastest", fastest);
  }

 private:
  Bags bags() const { return {.ids = ids_, .values = {}, .ends = ends_}; }
  Targets targets() const { return {.labels = labels_, .valid = network_->batch()}; }

  /// Prints the rates of the whole step and of its matrix products. On a busy machine only the fastest times
  /// compare well.
  template <class Of>
  void print_rates(const char* name, const Of& of) const {
    double products = 0.0;
    double flop = 0.0;
    for (const Part& part : parts_) {
      if (part.in_step) continue;
      products += of(part.times);
      flop += part.flop;
    }
    const auto batch = static_cast<double>(network_->batch());
    const double step = of(steps_);
    std::printf(
        "%s: matrix products %.0f us (%.1f GFLOP/s, %.0f samples/s), step %.0f us (%.0f samples/s): %.3f of "
        "the rate of its matrix products\n",
        name, products * 1e6, flop / products * 1e-9, batch / products, step * 1e6, batch / step,
        products / step);
  }

  void add_parts() {
    const std::span<float> features(features_.span().address(), features_.size());
    parts_.push_back({"rows of the batch", 0.0, true, [this] { found_.find(bags()); }, {}});
    parts_.push_back({"features",
                      0.0,
                      true,
                      [this, features] { bags_of_.forward(dense_, bags(), found_, rows_, features); },
                      {}});
    parts_.push_back(
        {"network forward",
         0.0,
         true,
         [this, features] { network_->forward(features, targets(), Pass::training, sums_.span()); },
         {}});
    parts_.push_back({"network backward",
                      0.0,
                      true,
                      [this] {
                        network_->backward(targets(), 1.0F / static_cast<float>(network_->batch()),
                                           [](std::int64_t) {});
                      },
                      {}});
    parts_.push_back({"gradient of the rows",
                      0.0,
                      true,
                      [this] {
                        const Tensor& gradient = network_->input_gradient();
                        bags_of_.backward(bags(), found_,
                                          {float_values(gradient).address(), gradient.span().size()}, drows_);
                      },
                      {}});
  }

  /// Adds the matrix products of each layer, on arrays of their own: forward, the gradients of weights and
  /// input.
  void add_products() {
    const std::int64_t widths[] = {bags_of_.spec().features(), 400, 400, 400, 2};
    const std::int64_t batch = network_->batch();
    for (int layer = 0; layer < 4; ++layer) {
      const std::int64_t in = widths[layer];
      const std::int64_t out = widths[layer + 1];
      const auto array = [this](std::int64_t count) {
        arrays_.push_back(device_.memory().allocate(static_cast<std::size_t>(count)));
        Random random(2, random_data, arrays_.size());
        float* const values = arrays_.back().span().address();
        for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.uniform() - 0.5);
        return values;
      };
      float* const x = array(batch * in);
      float* const w = array(in * out);
      float* const y = array(batch * out);
      float* const dw = array(in * out);
      float* const dx = array(batch * in);
      const int threads = device_.info().threads;
      const auto add = [&](const char* what, std::function<void()> run) {
        parts_.push_back({"product of fc" + std::to_string(layer + 1) + what,
                          2.0 * static_cast<double>(batch * in * out),
                          false,
                          std::move(run),
                          {}});
      };
      add(" forward", [=] { matrix_product(threads, batch, out, in, {x}, {w}, 0.0F, y); });
      add(" weights", [=] { matrix_product(threads, in, out, batch, {x, true}, {y}, 0.0F, dw); });
      add(" input", [=] { matrix_product(threads, batch, in, out, {y}, {w, true}, 0.0F, dx); });
    }
  }

  Device& device_;
  EmbeddingBags bags_of_;
  BatchRows found_;
  std::unique_ptr<Network> network_;
  std::vector<std::uint64_t> ids_;
  std::vector<std::int32_t> ends_;
  std::vector<std::int32_t> labels_;
  std::vector<float> dense_, rows_, drows_;
  Storage parameters_, gradients_, sums_, features_;
  std::vector<Storage> arrays_;
  std::vector<Part> parts_;
  std::vector<double> steps_;
};

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  flotilla::bench::take_rounds<flotilla::Step>(argc, argv, 1000);
}
