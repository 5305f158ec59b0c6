// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"
#include "models/layers.hpp"

namespace flotilla {

namespace {

/// Each half starts on 64 bytes.
std::size_t rounded(std::int64_t channels) {
  constexpr std::int64_t unit = ArenaLayout::alignment;
  return static_cast<std::size_t>((channels + unit - 1) / unit * unit);
}

/// Rows are images of one pixel, which is the same in every layout.
Shape image_of(const Shape& shape) {
  return shape.rank() == 4 ? shape : Shape{shape[0], shape[1], 1, 1};
}

}  // namespace

Norm::Norm(const Building& network, const std::string& name, const BatchNormSpec& spec,
           WorkerExchange* exchange)
    : device_(network.device),
      plan_(device_.layers().batch_norm(spec)),
      exchange_(exchange),
      local_count_(spec.input.size() / spec.input[1]),
      accumulate_(spec.accumulate) {
  using Kind = Initializer::Kind;
  const Shape shape{spec.input[1]};
  const auto tensor = [&](const char* ending, Kind kind) {
    return NamedTensor{.name = name + ending,
                       .shape = shape,
                       .kind = ParameterKind::batch_norm,
                       .initializer = {.kind = kind}};
  };
  parameters_.first = network.parameters.add(tensor(".weight", Kind::ones));
  parameters_.second = network.parameters.add(tensor(".bias", Kind::zeros));
  statistics_.first = network.statistics.add(tensor(".running_mean", Kind::zeros));
  statistics_.second = network.statistics.add(tensor(".running_var", Kind::ones));
  if (network.memory.purpose() == Purpose::inference) return;

  const std::size_t half = rounded(spec.input[1]);
  const auto channels = static_cast<std::size_t>(spec.input[1]);
  memory_ = device_.memory().allocate(half * (exchange_ == nullptr ? 4 : 8));
  const auto part = [&](std::size_t at) { return memory_.span().subspan(at * half, channels); };
  batch_ = {part(0), part(1)};
  sums_ = {part(2), part(3)};
  if (exchange_ != nullptr) exchange_->reserve(2 * channels);
}

void Norm::bind(const Arenas& arenas) {
  weights_ = parameters_.in<const float>(arenas.parameters);
  gradients_ = parameters_.in(arenas.gradients);
  running_ = statistics_.in<const float>(arenas.statistics);
  step_ = statistics_.in(arenas.step_statistics);
  fixed_ = arenas.fixed_statistics != nullptr && arenas.fixed_statistics->contains(statistics_.first.offset);
}

void Norm::forward(const Tensor& x, const Tensor* residual, Tensor& y, Pass pass) {
  if (pass == Pass::inference || fixed_) return plan_->normalise(x, residual, weights_, running_, y);
  if (pass == Pass::replay) return plan_->normalise(x, residual, weights_, batch_, y);
  const RunningStatistics running{step_, statistics_momentum};
  if (exchange_ == nullptr) {
    plan_->forward(x, residual, weights_, batch_, running, y);
  } else {
    plan_->statistics(x, batch_);
    // All workers have the same running statistics, which are near the batch's.
    share(batch_, running_.first);
    plan_->normalise(x, residual, weights_, batch_, y);
    update_running_statistics(device_.flat(), batch_, local_count_ * workers(), running);
  }
}

/// Replaces this worker's moments or sums by those of all.
void Norm::share(const ChannelPair<float>& values, DeviceSpan<const float> shifts) {
  const DeviceSpan<double> sums(reinterpret_cast<double*>(memory_.span().address() + memory_.size() / 2),
                                2 * values.first.size());
  device_.flat().pack_sums(values.first, values.second, shifts, sums);
  exchange_->all_reduce(sums);
  device_.flat().unpack_sums(sums, shifts, workers(), values.first, values.second);
}

void Norm::backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor* more_dy, Tensor& dx,
                    Tensor* dresidual) {
  if (exchange_ == nullptr && !fixed_)
    plan_->backward(x, y, weights_, batch_, dy, more_dy, gradients_, dx, dresidual);
  else
    backward_in_halves(x, y, dy, more_dy, dx, dresidual);
}

void Norm::backward_in_halves(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor* more_dy,
                              Tensor& dx, Tensor* dresidual) {
  plan_->backward_sums(x, y, weights_, used(), dy, more_dy, dresidual, sums_);
  // The gradients are this worker's part, as every gradient; only dx needs the sums over all.
  const auto put = [this](DeviceSpan<const float> from, DeviceSpan<float> to) {
    if (accumulate_) {
      device_.flat().axpy(1.0F, from, to);
    } else {
      device_.flat().copy(from, to);
    }
  };
  put(sums_.first, gradients_.first);
  put(sums_.second, gradients_.second);
  if (fixed_) {  // Statistics that do not depend on x: dx = scale / √(variance + ε) · dz
    device_.flat().fill(sums_.first, 0.0F);
    device_.flat().fill(sums_.second, 0.0F);
  } else {
    share(sums_, {});
  }
  plan_->backward_data(x, weights_, used(), sums_, static_cast<double>(local_count_ * workers()),
                       dresidual == nullptr ? dy : *dresidual, dx);
}

BatchNormLayer::BatchNormLayer(const Building& network, std::string name, const Spec& spec)
    : Layer(network, std::move(name), spec.input),
      memory_(network.memory),
      after_(spec.after),
      norm_(network, this->name(),
            {.input = image_of(spec.input), .after = spec.after, .accumulate = spec.accumulate},
            spec.exchange) {
  network.place(spec.input, y_);
  memory_.plan_gradient(spec.input, dx_);
}

/// Leaves the normalisation to last_ in this pass, or takes it back.
bool BatchNormLayer::leaves(const Tensor& x, Pass pass) {
  if (last_ == nullptr) return false;
  const bool leaves = norm_.finds_statistics(pass) && last_->norm_.finds_statistics(pass);
  last_->residual_norm_ = leaves ? &norm_ : nullptr;
  last_->residual_x_ = &x;
  return leaves;
}

const Tensor& BatchNormLayer::forward(const Tensor& x, const PassInfo& info) {
  const trace::Span span("batch norm forward");
  if (leaves(x, info.pass)) return y_;
  if (residual_norm_ != nullptr) {
    norm_.forward_both(x, *residual_norm_, *residual_x_, y_);
  } else if (output_shape().rank() == 4) {
    norm_.forward(x, residual_, y_, info.pass);
  } else {
    Tensor y = plain_view(y_, image_of(output_shape()));
    norm_.forward(plain_view(x, image_of(output_shape())), nullptr, y, info.pass);
  }
  return y_;
}

void BatchNormLayer::differentiate(const Tensor& x, Tensor& dy) {
  const Shape image = image_of(output_shape());
  if (output_shape().rank() == 4) return norm_.backward(x, y_, dy, nullptr, dy, nullptr);
  Tensor gradient = plain_view(dy, image);
  norm_.backward(plain_view(x, image), plain_view(y_, image), gradient, nullptr, gradient, nullptr);
}

OutputGradient BatchNormLayer::backward(const Tensor& x, OutputGradient dy) {
  const trace::Span span("batch norm backward");
  if (after_ != AfterNorm::add_relu) {
    differentiate(x, single(dy));
    return dy;
  }
  // dy becomes the gradient of the residual.
  Tensor& dx = memory_.take(dx_);
  norm_.backward(x, y_, *dy.first, dy.more, dx, dy.first);
  if (dy.more != nullptr) memory_.give_back(*dy.more);
  return {.first = &dx, .more = dy.first};
}

void BatchNormLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name() + " forward", "batch norm forward", 0.0, [this, &x] { forward(x, Pass::training); }});
  operations.backward.push_back({name() + " backward", "batch norm backward", 0.0, [this, &x] {
                                   Tensor& dx = ActivationMemory::view(dx_, 0);
                                   if (after_ != AfterNorm::add_relu) return differentiate(x, dx);
                                   Tensor& dy = ActivationMemory::view(dx_, 1);
                                   norm_.backward(x, y_, dy, &ActivationMemory::view(dx_, 2), dx, &dy);
                                 }});
}

std::unique_ptr<BatchNormLayer> make_batch_norm(const LayerBuilder& builder, const PlannedLayer& layer,
                                                AfterNorm after) {
  const LayerUse& use = builder.use();
  const Shape input = builder.batch_of(layer.input);
  const std::int64_t workers = use.exchange == nullptr ? 1 : use.exchange->workers();
  if (use.purpose == Purpose::training && input.size() / input[1] * workers < 2)
    throw UserError(cat("the batch norm of layer ", layer.name,
                        " gets a single value per channel, of images or rows ", input.text(),
                        " (batch first): give a larger batch", input.rank() == 4 ? " or larger images" : ""));
  return std::make_unique<BatchNormLayer>(
      builder.building(layer), layer.name,
      BatchNormLayer::Spec{
          .input = input, .after = after, .accumulate = use.accumulate, .exchange = use.exchange});
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
      const bool relu = builder.plan().take_if(Activation::relu);
      return make_batch_norm(builder, layer, relu ? AfterNorm::relu : AfterNorm::nothing);
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer& layer) {
          GraphBuilder& graph = walk.graph();
          return graph.node(
              "BatchNormalization",
              {x, graph.parameter(layer.name + ".weight"), graph.parameter(layer.name + ".bias"),
               graph.statistic(layer.name + ".running_mean"), graph.statistic(layer.name + ".running_var")},
              {{"epsilon", BatchNormSpec().epsilon}}, layer.name);
        }};

namespace {

/// Layer normalisation of rows (N,C): tensors "<name>.weight" (C), 1 at first, and "<name>.bias" (C), 0.
class LayerNormLayer : public Layer {
 public:
  LayerNormLayer(const Building& network, std::string name, const LayerNormSpec& spec);
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;

 private:
  std::unique_ptr<LayerNorm> plan_;
  Slice scale_slice_, shift_slice_;
  ScaleShift weights_;
  ScaleShiftGradients gradients_;
  Tensor y_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

LayerNormLayer::LayerNormLayer(const Building& network, std::string name, const LayerNormSpec& spec)
    : Layer(network, std::move(name), {spec.rows, spec.columns}),
      plan_(network.device.layers().layer_norm(spec)) {
  const auto add = [&](const char* ending, Initializer::Kind kind) {
    return network.parameters.add({.name = this->name() + ending,
                                   .shape = {spec.columns},
                                   .kind = ParameterKind::batch_norm,
                                   .initializer = {.kind = kind}});
  };
  scale_slice_ = add(".weight", Initializer::Kind::ones);
  shift_slice_ = add(".bias", Initializer::Kind::zeros);
  network.memory.keep(output_shape(), y_);
  network.memory.plan_gradient(output_shape(), dy_);
}

void LayerNormLayer::bind(const Arenas& arenas) {
  weights_ = {part_of<const float>(arenas.parameters, scale_slice_),
              part_of<const float>(arenas.parameters, shift_slice_)};
  gradients_ = {part_of(arenas.gradients, scale_slice_), part_of(arenas.gradients, shift_slice_)};
}

const Tensor& LayerNormLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("layer norm forward");
  plan_->forward(x, weights_, y_);
  return y_;
}

OutputGradient LayerNormLayer::backward(const Tensor& x, OutputGradient dy) {
  const trace::Span span("layer norm backward");
  plan_->backward(x, weights_, single(dy), gradients_, *dy.first);
  return dy;
}

void LayerNormLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name() + " forward", "layer norm forward", 0.0, [this, &x] { plan_->forward(x, weights_, y_); }});
  operations.backward.push_back({name() + " backward", "layer norm backward", 0.0, [this, &x] {
                                   Tensor& dy = ActivationMemory::view(dy_, 0);
                                   plan_->backward(x, weights_, dy, gradients_, dy);
                                 }});
}

}  // namespace

const LayerKind layer_norm_kind = {
    .word = "layer_norm",
    .usage = "layer_norm",
    .plan =
        [](LayerSite& site, PlannedLayer& layer) {
          site.needs_plain_rows();
          if (site.is_image())
            throw UserError("layer_norm takes rows: put it behind linear or global_average_pool");
          layer.parameters = 2 * site.shape[0];
        },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      return std::make_unique<LayerNormLayer>(builder.building(layer), layer.name,
                                              LayerNormSpec{.rows = builder.use().batch,
                                                            .columns = layer.input[0],
                                                            .accumulate = builder.use().accumulate});
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer& layer) {
          GraphBuilder& graph = walk.graph();
          return graph.node(
              "LayerNormalization",
              {x, graph.parameter(layer.name + ".weight"), graph.parameter(layer.name + ".bias")},
              {{"axis", std::int64_t{-1}}, {"epsilon", LayerNormSpec().epsilon}}, layer.name);
        }};

}  // namespace flotilla
