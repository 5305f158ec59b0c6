// SPDX-License-Identifier: Apache-2.0
#include "models/mlp.hpp"

#include "kernels/error.hpp"
#include "models/activation_layer.hpp"
#include "models/dropout_layer.hpp"
#include "models/linear_layer.hpp"

namespace flotilla {

std::unique_ptr<Network> make_mlp(Device& device, const MlpSpec& spec) {
  require(spec.input.rank() >= 2 && spec.classes > 0, "an MLP needs a batch of inputs and classes");
  const std::int64_t batch = spec.input[0];
  std::int64_t in = spec.input.size() / batch;
  auto network = std::make_unique<Network>(device, NetworkSpec{.input = {batch, in},
                                                               .classes = spec.classes,
                                                               .label_smoothing = spec.label_smoothing,
                                                               .loss = spec.loss,
                                                               .purpose = spec.purpose});
  for (std::size_t i = 0; i <= spec.widths.size(); ++i) {
    const bool last = i == spec.widths.size();
    const Activation activation = last ? Activation::identity : spec.activation;
    const bool fused = has_slope_of_value(activation);
    const LinearSpec linear{.batch = batch,
                            .in = in,
                            .out = last ? spec.classes : spec.widths[i],
                            .activation = fused ? activation : Activation::identity,
                            .accumulate = spec.accumulate};
    network->append(std::make_unique<LinearLayer>(network->building(), cat("fc", i + 1), linear,
                                                  spec.initializer, i == 0 && !spec.input_gradient));
    in = linear.out;
    if (!fused)
      network->append(
          std::make_unique<ActivationLayer>(network->building(), cat("activation", i + 1),
                                            ElementwiseSpec{.input = {batch, in}, .function = activation}));
    if (!last && spec.dropout > 0.0F)
      network->append(std::make_unique<DropoutLayer>(network->building(), cat("dropout", i + 1),
                                                     DropoutSpec{.input = {batch, in},
                                                                 .probability = spec.dropout,
                                                                 .seed = spec.dropout_seed,
                                                                 .layer = static_cast<std::uint32_t>(i)}));
  }
  network->finish();
  return network;
}

}  // namespace flotilla
