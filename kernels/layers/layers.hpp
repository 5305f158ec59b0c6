// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/layers/batch_norm.hpp"
#include "kernels/layers/conv2d.hpp"
#include "kernels/layers/dropout.hpp"
#include "kernels/layers/elementwise.hpp"
#include "kernels/layers/layer_norm.hpp"
#include "kernels/layers/linear.hpp"
#include "kernels/layers/output_loss.hpp"
#include "kernels/layers/pool2d.hpp"
#include "kernels/layers/softmax_loss.hpp"

namespace flotilla {

/// Makes the plans that are matrix products.
class ProductLayers {
 public:
  virtual ~ProductLayers() = default;
  virtual std::unique_ptr<Linear> linear(const LinearSpec& spec) = 0;
  virtual std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) = 0;
};

/// Makes the plans that layers of networks compute with: each holds primitives and workspace for one shape.
class Layers : public ProductLayers {
 public:
  virtual std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) = 0;
  virtual std::unique_ptr<LayerNorm> layer_norm(const LayerNormSpec& spec) = 0;
  virtual std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) = 0;
  virtual std::unique_ptr<Elementwise> elementwise(const ElementwiseSpec& spec) = 0;
  virtual std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) = 0;
  virtual std::unique_ptr<Loss> softmax_loss(const SoftmaxLossSpec& spec) = 0;
  virtual std::unique_ptr<Loss> output_loss(const OutputLossSpec& spec) = 0;
};

}  // namespace flotilla
