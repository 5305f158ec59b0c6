// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/host_batch.hpp"
#include "kernels/layers/activation.hpp"
#include "kernels/layers/pool2d.hpp"
#include "models/onnx_graph.hpp"

namespace flotilla {

/// The values of a tensor of a trained model, row-major.
struct ModelTensor {
  Shape shape;
  std::span<const float> values;
};

/// By path: "parameters/fc1.weight", "statistics/bn1.running_mean".
using ModelTensors = std::map<std::string, ModelTensor>;

/// Makes an OnnxGraph layer by layer. Each function appends the nodes of one layer as it computes in
/// inference, with the tensors that a checkpoint has under the layer's name. Values are named by strings: `x`
/// is the name of a layer's input, and the result is that of its output.
class GraphBuilder {
 public:
  /// @param weights must outlive the builder  @param folds batch norms go into the weights of the layer
  /// before
  GraphBuilder(const ModelTensors& weights, OnnxValue input, bool folds);

  /// x (N,C,H,W). @param norm the batch norm behind it; empty: none
  struct Convolution {
    std::string name;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    bool bias = false;
    std::string norm{};
  };
  std::string convolution(const std::string& x, const Convolution& layer);
  /// x (N,C). @param norm the batch norm behind it; empty: none
  std::string linear(const std::string& x, const std::string& name, const std::string& norm = {});
  std::string batch_norm(const std::string& x, const std::string& name);  ///< x (N,C) or (N,C,H,W)
  std::string layer_norm(const std::string& x, const std::string& name);  ///< x (N,C)
  std::string activation(const std::string& x, Activation function);
  /// The window of `spec`, whose input is not used; global_average gives rows (N,C).
  std::string pool(const std::string& x, const Pool2dSpec& spec);
  std::string sum(const std::string& x, const std::string& y);
  std::string flatten(const std::string& x);  ///< Images as rows (N, C·H·W)
  /// Bytes (N,H,W,C), C = `channels`, as scaled images (N,C,H,W).
  std::string scaled_images(const std::string& x, const ByteScaling& scaling, std::int64_t channels);
  std::string softmax(const std::string& x);
  /// x (N,C) times `scale` plus `shift`, both (C).
  std::string scaled_rows(const std::string& x, const std::vector<double>& scale,
                          const std::vector<double>& shift);

  /// The graph, whose last node becomes `output`. @throws UserError naming the first parameter or statistic
  /// of the checkpoint that no layer took.
  OnnxGraph finish(OnnxValue output);

 private:
  std::string add(const std::string& operation, std::vector<std::string> inputs,
                  OnnxAttributes attributes = {}, const std::string& name = {});
  const ModelTensor& find(const std::string& path);
  std::vector<float> values(const std::string& path);
  std::string constant(const std::string& name, const Shape& shape, std::vector<float> values);
  std::string parameter(const std::string& name);  ///< Of the checkpoint, as a constant
  std::string scalar(float value);
  /// The inputs of a convolution or linear layer: x, weight and bias, the batch norm folded into them.
  std::vector<std::string> weighted(const std::string& x, const std::string& name, bool bias,
                                    const std::string& norm);

  const ModelTensors& weights_;
  bool folds_;
  OnnxGraph graph_;
  std::set<std::string> used_;
};

}  // namespace flotilla
