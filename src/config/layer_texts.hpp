// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/layers/activation.hpp"

namespace flotilla {

/// A layer of model.layers, as its text says ("conv 32 3 padding 1").
struct LayerText {
  enum class Kind {
    conv,
    max_pool,
    average_pool,
    global_average_pool,
    batch_norm,
    layer_norm,
    activation,
    dropout,
    flatten,
    linear,
    residual,
    end,  ///< Of a residual
  };
  Kind kind = Kind::flatten;
  std::int64_t outputs = 0;                      ///< conv: channels; linear: values
  std::int64_t kernel = 1;                       ///< conv, max_pool, average_pool
  std::int64_t stride = 1;                       ///< As kernel
  std::int64_t padding = 0;                      ///< As kernel
  bool bias = true;                              ///< conv
  bool projection = false;                       ///< residual
  double probability = 0.0;                      ///< dropout
  Activation activation = Activation::identity;  ///< activation
};

/// @throws UserError what is wrong with the text, and how such a layer is written
LayerText parse_layer(std::string_view text);

/// parse_layer() of each. @throws UserError as it does
std::vector<LayerText> parse_layers(const std::vector<std::string>& texts);

}  // namespace flotilla
