// SPDX-License-Identifier: Apache-2.0
#include "models/ctr_dnn.hpp"

#include "models/mlp.hpp"

namespace flotilla {

std::unique_ptr<Network> make_ctr_dnn(Device& device, const CtrDnnSpec& spec) {
  return make_mlp(device, {.input = {spec.batch, spec.features},
                           .widths = spec.widths,
                           .classes = click_classes,
                           .activation = spec.activation,
                           .initializer = {.kind = Initializer::Kind::lecun_normal},
                           .label_smoothing = spec.label_smoothing,
                           .accumulate = spec.accumulate,
                           .dropout = spec.dropout,
                           .dropout_seed = spec.dropout_seed,
                           .input_gradient = true,
                           .purpose = spec.purpose});
}

}  // namespace flotilla
