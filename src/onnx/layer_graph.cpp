// SPDX-License-Identifier: Apache-2.0
#include "src/onnx/layer_graph.hpp"

#include <vector>

#include "kernels/error.hpp"
#include "src/train/layer_plan.hpp"

namespace flotilla {

namespace {

using Kind = LayerText::Kind;

/// Appends the layers of a plan one after another.
class LayerGraph {
 public:
  LayerGraph(GraphBuilder& graph, const std::vector<PlannedLayer>& plan) : graph_(graph), plan_(plan) {}

  std::string add(std::string x) {
    for (at_ = 0; at_ < plan_.size(); ++at_) x = next(x, plan_[at_]);
    return x;
  }

 private:
  std::string next(const std::string& x, const PlannedLayer& layer) {
    const LayerText& text = layer.layer;
    switch (text.kind) {
      case Kind::conv:
        return graph_.convolution(x, {.name = layer.name,
                                      .stride = text.stride,
                                      .padding = text.padding,
                                      .bias = text.bias,
                                      .norm = batch_norm_behind()});
      case Kind::max_pool: return pool(x, text, Pooling::max);
      case Kind::average_pool: return pool(x, text, Pooling::average_including_padding);
      case Kind::global_average_pool: return pool(x, text, Pooling::global_average);
      case Kind::batch_norm: return graph_.batch_norm(x, layer.name);
      case Kind::layer_norm: return graph_.layer_norm(x, layer.name);
      case Kind::activation: return graph_.activation(x, text.activation);
      case Kind::dropout: return x;  // of training only
      case Kind::flatten: return flattened(x, layer);
      case Kind::linear: return graph_.linear(flattened(x, layer), layer.name, batch_norm_behind());
      case Kind::residual: return shortcut_ = x;
      case Kind::end: break;
    }
    return graph_.sum(x, projected(layer));
  }

  std::string pool(const std::string& x, const LayerText& text, Pooling kind) {
    return graph_.pool(
        x,
        {.input = {}, .kind = kind, .kernel = text.kernel, .stride = text.stride, .padding = text.padding});
  }

  std::string flattened(const std::string& x, const PlannedLayer& layer) {
    return layer.input.rank() == 3 ? graph_.flatten(x) : x;
  }

  std::string projected(const PlannedLayer& end) {
    if (end.shortcut_stride == 0) return shortcut_;
    const std::string name = end.name + ".shortcut.";
    return graph_.convolution(shortcut_,
                              {.name = name + "0", .stride = end.shortcut_stride, .norm = name + "1"});
  }

  /// The name of the batch norm that is the next layer, which then belongs to the layer at hand.
  std::string batch_norm_behind() {
    if (at_ + 1 == plan_.size() || plan_[at_ + 1].layer.kind != Kind::batch_norm) return {};
    return plan_[++at_].name;
  }

  GraphBuilder& graph_;
  const std::vector<PlannedLayer>& plan_;
  std::size_t at_ = 0;
  std::string shortcut_;  ///< The input of the residual at hand
};

}  // namespace

std::string add_layers(GraphBuilder& graph, const std::string& x, const ModelConfig& model,
                       const Shape& sample) {
  const std::vector<PlannedLayer> plan = plan_layers(model, sample);
  return LayerGraph(graph, plan).add(x);
}

}  // namespace flotilla
