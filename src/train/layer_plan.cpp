// SPDX-License-Identifier: Apache-2.0
#include "src/train/layer_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kernels/error.hpp"
#include "kernels/layers/layers.hpp"

namespace flotilla {

namespace {

using Kind = LayerText::Kind;

bool is_image(const Shape& shape) {
  return shape.rank() == 3;
}

/// The image as a batch of one.
Shape batch_of(const Shape& image) {
  return {1, image[0], image[1], image[2]};
}

Shape sample_of(const Shape& batch) {
  return {batch[1], batch[2], batch[3]};
}

/// A residual whose end was not met yet.
struct OpenResidual {
  std::size_t begin;  ///< Index of its text
  Shape input;
  bool projection;
  std::size_t layers = 0;  ///< In it so far
};

class Planner {
 public:
  Planner(const ModelConfig& model, const Shape& sample) : model_(model), shape_(layer_input(sample)) {}

  std::vector<PlannedLayer> plan() {
    for (index_ = 0; index_ < model_.layers.size(); ++index_) add(parse_layer(model_.layers[index_]));
    --index_;
    if (open_) refuse_at(open_->begin, "this residual has no \"end\"");
    check_outputs();
    return std::move(planned_);
  }

 private:
  void add(const LayerText& layer) {
    PlannedLayer next{
        .name = name_of(layer.kind), .text = model_.layers[index_], .layer = layer, .input = shape_};
    const bool starts = layer.kind == Kind::conv || layer.kind == Kind::flatten || layer.kind == Kind::linear;
    if (planned_.empty() && is_image(shape_) && !starts)
      refuse("the first layer of a network for images must be conv, flatten or linear");
    switch (layer.kind) {
      case Kind::conv: convolve(layer, next); break;
      case Kind::max_pool:
      case Kind::average_pool:
        needs_image();
        check_window(layer);
        if (2 * layer.padding > layer.kernel)
          refuse("the padding of pooling must be at most half its kernel");
        shape_ = sample_of(output_shape(Pool2dSpec{.input = batch_of(shape_),
                                                   .kernel = layer.kernel,
                                                   .stride = layer.stride,
                                                   .padding = layer.padding}));
        break;
      case Kind::global_average_pool:
        needs_image();
        shape_ = {shape_[0]};
        break;
      case Kind::batch_norm:
        needs_plain_rows();
        next.parameters = 2 * shape_[0];
        break;
      case Kind::layer_norm:
        needs_plain_rows();
        if (is_image(shape_)) refuse("layer_norm takes rows: put it behind linear or global_average_pool");
        next.parameters = 2 * shape_[0];
        break;
      case Kind::activation:
      case Kind::dropout: break;
      case Kind::flatten: flatten(); break;
      case Kind::linear:
        flatten();
        next.parameters = (shape_[0] + 1) * layer.outputs;
        shape_ = {layer.outputs};
        flattened_ = false;
        break;
      case Kind::residual: begin(layer); break;
      case Kind::end: end(next); break;
    }
    next.output = shape_;
    planned_.push_back(std::move(next));
  }

  void convolve(const LayerText& layer, PlannedLayer& next) {
    needs_image();
    check_window(layer);
    constexpr std::int64_t most_channels = 4;
    if (planned_.empty() && shape_[0] > most_channels)
      refuse(cat("images have at most ", most_channels, " channels"));
    next.parameters = layer.outputs * (shape_[0] * layer.kernel * layer.kernel + (layer.bias ? 1 : 0));
    shape_ = sample_of(output_shape(Conv2dSpec{.input = batch_of(shape_),
                                               .out_channels = layer.outputs,
                                               .kernel = layer.kernel,
                                               .stride = layer.stride,
                                               .padding = layer.padding}));
  }

  void flatten() {
    if (!is_image(shape_)) return;
    if (open_) refuse("an image cannot be flattened in a residual: close it with \"end\" before");
    flattened_ = !planned_.empty();
    shape_ = {shape_.size()};
  }

  void begin(const LayerText& layer) {
    if (open_) refuse("a residual cannot be in another one: close that with \"end\" before");
    needs_plain_rows();
    open_ = {.begin = index_, .input = shape_, .projection = layer.projection};
    if (layer.projection) needs_image();
  }

  void end(PlannedLayer& next) {
    if (!open_) refuse("there is no \"residual\" to end");
    if (open_->layers == 0) refuse("there is no layer in this residual");
    const Shape from = open_->input;
    next.input = from;
    if (!open_->projection && !(from == shape_))
      refuse(cat("the residual begins with ", from.text(), " values and ends with ", shape_.text(),
                 ": write \"residual projection\", whose shortcut is a convolution and batch_norm, or keep "
                 "the shape"));
    if (open_->projection) {
      for (std::int64_t stride = 1; stride <= std::max(from[1], from[2]) && next.shortcut_stride == 0;
           ++stride)
        if (windows(from[1], 1, stride, 0) == shape_[1] && windows(from[2], 1, stride, 0) == shape_[2])
          next.shortcut_stride = stride;
      if (next.shortcut_stride == 0)
        refuse(cat("no stride of a projection makes images ", shape_.text(), " of ", from.text()));
      next.parameters = shape_[0] * (from[0] + 2);
    }
    open_.reset();
  }

  void check_outputs() {
    const Kind last = planned_.back().layer.kind;
    if (last != Kind::linear && last != Kind::global_average_pool)
      refuse(
          model_.has_classes()
              ? "the last layer must be linear or global_average_pool, whose outputs are the classes' "
                "logits: "
                "the softmax is the loss's"
              : "the last layer must be linear or global_average_pool, whose outputs are those of the model");
    if (shape_[0] != model_.output_width())
      refuse(cat("the last layer has ", shape_[0], " outputs, model.",
                 model_.has_classes() ? "classes" : "outputs", " is ", model_.output_width(),
                 ": give both one number"));
  }

  void check_window(const LayerText& layer) const {
    if (shape_[1] + 2 * layer.padding >= layer.kernel && shape_[2] + 2 * layer.padding >= layer.kernel)
      return;
    refuse(cat("a kernel of ", layer.kernel, " is larger than the image, ", shape_.text(), " with padding ",
               layer.padding));
  }

  void needs_image() const {
    if (is_image(shape_)) return;
    refuse(cat("this layer takes images, and here are rows of ", shape_.text(),
               " values: it must stand before flatten, linear and global_average_pool"));
  }

  void needs_plain_rows() const {
    if (flattened_)
      refuse("between flatten and the linear layer behind it only activations and dropout may stand");
  }

  std::string name_of(Kind kind) {
    if (kind == Kind::end) return cat(count_ - 1);
    if (open_) return cat(count_ - 1, ".", open_->layers++);
    return cat(count_++);
  }

  [[noreturn]] void refuse(const std::string& why) const { refuse_at(index_, why); }
  [[noreturn]] void refuse_at(std::size_t index, const std::string& why) const {
    const std::string place = index < model_.layer_places.size() ? model_.layer_places[index] + ": " : "";
    throw UserError(cat(place, "model.layers[", index, "] = \"", model_.layers[index], "\": ", why));
  }

  const ModelConfig& model_;
  Shape shape_;
  std::size_t index_ = 0;
  std::size_t count_ = 0;   ///< Of layers outside residuals
  bool flattened_ = false;  ///< Rows lie as images do
  std::optional<OpenResidual> open_;
  std::vector<PlannedLayer> planned_;
};

}  // namespace

Shape layer_input(const Shape& sample) {
  return sample.rank() == 2 ? Shape{1, sample[0], sample[1]} : sample;
}

std::vector<PlannedLayer> plan_layers(const ModelConfig& model, const Shape& sample) {
  return Planner(model, sample).plan();
}

std::vector<std::string> describe_layers(const std::vector<PlannedLayer>& layers) {
  std::vector<std::string> lines = {
      fmt::format("{:<8} {:<32} {:>16} {:>12}", "layer", "text", "output", "parameters")};
  std::int64_t sum = 0;
  for (const PlannedLayer& each : layers) {
    sum += each.parameters;
    lines.push_back(
        fmt::format("{:<8} {:<32} {:>16} {:>12}", each.name, each.text, each.output.text(), each.parameters));
  }
  lines.push_back(fmt::format("{:<8} {:<32} {:>16} {:>12}", "all", "", "", sum));
  return lines;
}

}  // namespace flotilla
