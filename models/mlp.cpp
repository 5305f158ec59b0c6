// SPDX-License-Identifier: Apache-2.0
#include "models/mlp.hpp"

#include <string>

#include "kernels/error.hpp"
#include "models/linear_layer.hpp"

namespace flotilla {

std::unique_ptr<Network> make_mlp(Device& device, const MlpSpec& spec) {
  require(spec.input.rank() >= 2 && spec.classes > 0, "an MLP needs a batch of inputs and classes");
  const std::int64_t batch = spec.input[0];
  std::int64_t in = spec.input.size() / batch;
  auto network = std::make_unique<Network>(device, Shape{batch, in}, spec.classes, spec.label_smoothing);
  for (std::size_t i = 0; i <= spec.widths.size(); ++i) {
    const bool last = i == spec.widths.size();
    const LinearSpec linear{.batch = batch,
                            .in = in,
                            .out = last ? spec.classes : spec.widths[i],
                            .activation = last ? Activation::identity : spec.activation,
                            .accumulate = spec.accumulate};
    auto layer = std::make_unique<LinearLayer>(device, network->layout(), cat("fc", i + 1), linear, i == 0);
    const Linear* plan = &layer->plan();
    const std::size_t weight = network->layout().slices().size() - 2;
    network->append(
        {.slice = weight,
         .initializer = spec.initializer,
         .fan_in = linear.in,
         .fan_out = linear.out,
         .from_plain = [plan](auto plain, auto stored) { plan->weight_from_plain(plain, stored); },
         .to_plain = [plan](auto stored, auto plain) { plan->weight_to_plain(stored, plain); }});
    network->append({.slice = weight + 1,
                     .initializer = {.kind = Initializer::Kind::zeros},
                     .fan_in = linear.in,
                     .fan_out = linear.out,
                     .from_plain = nullptr,
                     .to_plain = nullptr});
    network->append(std::move(layer));
    in = linear.out;
  }
  return network;
}

}  // namespace flotilla
