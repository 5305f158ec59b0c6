// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"
#include "models/norm.hpp"

namespace flotilla {

namespace {

/// Batch normalisation of images (N,C,H,W) or rows (N,C), and ReLU where `relu` says so. Tensors as Norm's.
class BatchNormLayer : public Layer {
 public:
  struct Spec {
    Shape input;
    bool relu = false;
    bool accumulate = false;
    WorkerExchange* exchange = nullptr;
  };
  BatchNormLayer(const Building& network, std::string name, const Spec& spec);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas& arenas) override { norm_.bind(arenas); }
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return offset_; }

 private:
  void normalise(const Tensor& x, Pass pass);
  void differentiate(const Tensor& x, Tensor& dy);

  std::string name_;
  Shape shape_;
  std::int64_t offset_;
  Norm norm_;
  Tensor y_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

/// Rows are images of one pixel, which lies alike in every layout.
Shape image_of(const Shape& shape) {
  return shape.rank() == 4 ? shape : Shape{shape[0], shape[1], 1, 1};
}

BatchNormLayer::BatchNormLayer(const Building& network, std::string name, const Spec& spec)
    : name_(std::move(name)),
      shape_(spec.input),
      offset_(network.parameters.layout().size()),
      norm_(network, name_,
            {.input = image_of(shape_),
             .after = spec.relu ? AfterNorm::relu : AfterNorm::nothing,
             .accumulate = spec.accumulate},
            spec.exchange) {
  network.memory.keep(shape_, y_);
  network.memory.plan_gradient(shape_, dy_);
}

void BatchNormLayer::normalise(const Tensor& x, Pass pass) {
  const trace::Span span("batch norm forward");
  if (shape_.rank() == 4) return norm_.forward(x, nullptr, y_, pass);
  Tensor y = plain_view(y_, image_of(shape_));
  norm_.forward(plain_view(x, image_of(shape_)), nullptr, y, pass);
}

void BatchNormLayer::differentiate(const Tensor& x, Tensor& dy) {
  const trace::Span span("batch norm backward");
  if (shape_.rank() == 4) return norm_.backward(x, y_, dy, nullptr, dy, nullptr);
  Tensor gradient = plain_view(dy, image_of(shape_));
  norm_.backward(plain_view(x, image_of(shape_)), plain_view(y_, image_of(shape_)), gradient, nullptr,
                 gradient, nullptr);
}

const Tensor& BatchNormLayer::forward(const Tensor& x, const PassInfo& info) {
  normalise(x, info.pass);
  return y_;
}

OutputGradient BatchNormLayer::backward(const Tensor& x, OutputGradient dy) {
  require(dy.more == nullptr, name_, " cannot add two gradients");
  differentiate(x, *dy.first);
  return dy;
}

void BatchNormLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name_ + " forward", "batch norm forward", 0.0, [this, &x] { normalise(x, Pass::training); }});
  operations.backward.push_back({name_ + " backward", "batch norm backward", 0.0,
                                 [this, &x] { differentiate(x, ActivationMemory::view(dy_, 0)); }});
}

}  // namespace

std::unique_ptr<Layer> make_batch_norm(const LayerBuilder& builder, const std::string& name,
                                       const Shape& input, bool relu) {
  const LayerUse& use = builder.use();
  const std::int64_t workers = use.exchange == nullptr ? 1 : use.exchange->workers();
  if (use.purpose == Purpose::training && input.size() / input[1] * workers < 2)
    throw UserError(cat("the batch norm of layer ", name,
                        " gets a single value per channel, of images or rows ", input.text(),
                        " (batch first): give a larger batch"));
  return std::make_unique<BatchNormLayer>(
      builder.building(), name,
      BatchNormLayer::Spec{
          .input = input, .relu = relu, .accumulate = use.accumulate, .exchange = use.exchange});
}

const LayerKind batch_norm_kind = {
    .word = "batch_norm",
    .usage = "batch_norm",
    .plan =
        [](LayerSite& site, PlannedLayer& layer) {
          site.needs_plain_rows();
          layer.parameters = 2 * site.shape[0];
        },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      const bool relu = builder.takes(Activation::relu);
      return make_batch_norm(builder, layer.name, builder.batch_of(layer.input), relu);
    },
    .graph = [](GraphWalk& walk, const std::string& x,
                const PlannedLayer& layer) { return walk.graph().batch_norm(x, layer.name); }};

}  // namespace flotilla
