// SPDX-License-Identifier: Apache-2.0
#include "models/layer_list.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

class Planner {
 public:
  Planner(const LayerList& list, const Shape& sample) : list_(list), site_{.shape = layer_input(sample)} {}

  std::vector<PlannedLayer> plan() {
    for (at_ = 0; at_ < list_.layers.size(); ++at_) at_place(at_, [&] { add(list_.layers[at_]); });
    if (part_) at_place(part_->place, [] { throw UserError("this residual has no \"end\""); });
    at_place(list_.layers.size() - 1, [this] { check_outputs(); });
    return std::move(planned_);
  }

 private:
  /// A residual or part whose end was not met yet.
  struct Part {
    std::size_t place = 0;
    PlannedLayer begin;
    std::size_t unnamed = 0;      ///< Layers in it that have no names
    std::optional<Shape> body{};  ///< Shape that the body makes, if the shortcut has layers
  };

  void add(const ListedLayer& layer) {
    PlannedLayer next{layer, site_.shape};
    next.name = name_of(layer);
    if (site_.first && site_.is_image() && !layer.kind->takes_batch)
      throw UserError("the first layer of a network for images must be conv, flatten or linear");
    if (layer.kind == &residual_kind || layer.kind == &part_kind) begin(next);
    if (layer.kind == &shortcut_kind) site_.shape = part_->begin.input, part_->body = next.input;
    if (layer.kind == &end_kind) end(next);
    if (layer.kind->plan != nullptr) layer.kind->plan(site_, next);
    next.output = site_.shape;
    site_.first = site_.first && layer.kind == &part_kind;
    planned_.push_back(std::move(next));
  }

  void begin(const PlannedLayer& next) {
    if (part_) throw UserError("a residual cannot be in another one: close that with \"end\" before");
    part_ = {at_, next};
    site_.in_residual = next.kind == &residual_kind;
  }

  void end(PlannedLayer& next) {
    if (!part_) throw UserError("there is no \"residual\" to end");
    if (at_ == part_->place + 1) throw UserError("there is no layer in this residual");
    if (part_->begin.arguments.projection) project();
    next.input = part_->begin.input;
    const Shape from = part_->body ? site_.shape : next.input;
    site_.shape = part_->body.value_or(site_.shape);
    if (site_.in_residual && from != site_.shape)
      throw UserError(
          cat("the residual begins with ", from.text(), " values and ends with ", site_.shape.text(),
              ": write \"residual projection\", whose shortcut is a convolution and batch_norm, or "
              "keep the shape"));
    part_.reset();
    site_.in_residual = false;
  }

  /// Adds the shortcut of a projection.
  void project() {
    const Shape& from = part_->begin.input;
    const Shape to = site_.shape;
    std::int64_t stride = 1;
    while (windows(from[1], 1, stride, 0) != to[1] || windows(from[2], 1, stride, 0) != to[2])
      if (++stride > std::max(from[1], from[2]))
        throw UserError(cat("no stride of a projection makes images ", to.text(), " of ", from.text()));
    const std::string conv = cat("conv ", to[0], " 1 stride ", stride, " no_bias");
    for (ListedLayer layer : {read_layer(shortcut_kind, "shortcut"), read_layer(conv_kind, conv),
                              read_layer(batch_norm_kind, "batch_norm")}) {
      if (part_->body) layer.name = cat("shortcut.", layer.kind == &conv_kind ? 0 : 1);
      add(layer);
    }
  }

  void check_outputs() const {
    const bool classes = list_.has_classes;
    if (!planned_.back().kind->gives_logits)
      throw UserError(
          classes
              ? "the last layer must be linear or global_average_pool, whose outputs are the classes' "
                "logits: "
                "the softmax is the loss's"
              : "the last layer must be linear or global_average_pool, whose outputs are those of the model");
    if (site_.shape[0] != list_.outputs)
      throw UserError(cat("the last layer has ", site_.shape[0], " outputs, model.",
                          classes ? "classes" : "outputs", " is ", list_.outputs, ": give both one number"));
  }

  std::string name_of(const ListedLayer& layer) {
    if (part_ && (layer.kind == &end_kind || layer.kind == &shortcut_kind)) return part_->begin.name;
    std::size_t& unnamed = site_.in_residual ? part_->unnamed : unnamed_;
    const std::string name = layer.name.empty() ? cat(unnamed++) : layer.name;
    return site_.in_residual ? cat(part_->begin.name, ".", name) : name;
  }

  /// Calls `plans`, whose UserError gets the place of this layer in front.
  void at_place(std::size_t index, const auto& plans) const {
    try {
      plans();
    } catch (const UserError& error) {
      const std::string place = index < list_.places.size() ? list_.places[index] + ": " : "";
      throw UserError(
          cat(place, "model.layers[", index, "] = \"", list_.layers[index].text, "\": ", error.what()));
    }
  }

  const LayerList& list_;
  LayerSite site_;
  std::size_t at_ = 0;       ///< Place of the layer at hand in the list
  std::size_t unnamed_ = 0;  ///< Layers outside residuals that have no names
  std::optional<Part> part_;
  std::vector<PlannedLayer> planned_;
};

}  // namespace

Shape layer_input(const Shape& sample) {
  return sample.rank() == 2 ? Shape{1, sample[0], sample[1]} : sample;
}

std::vector<PlannedLayer> plan_layers(const LayerList& list, const Shape& sample) {
  return Planner(list, sample).plan();
}

std::unique_ptr<Network> make_layer_network(Device& device, const std::vector<PlannedLayer>& plan,
                                            const LayerUse& use) {
  const auto first = std::ranges::find_if(plan, [](const auto& layer) { return layer.kind != &part_kind; });
  const Shape& sample = first->input;
  const Shape input = first->kind == &conv_kind ? Shape{use.batch, sample[0], sample[1], sample[2]}
                                                : Shape{use.batch, sample.size()};
  auto network = std::make_unique<Network>(device, NetworkSpec{.input = input,
                                                               .classes = plan.back().output[0],
                                                               .label_smoothing = use.label_smoothing,
                                                               .class_weights = use.class_weights,
                                                               .loss = use.loss,
                                                               .purpose = use.purpose});
  LayerBuilder(*network, plan, use).build();
  return network;
}

bool PlanReader::take_if(Activation activation) {
  const bool is_next = has_next() && plan_[next_].kind->activation == activation;
  if (is_next) ++next_;
  return is_next;
}

bool PlanReader::at_end(std::size_t ahead) const {
  if (next_ + ahead >= plan_.size()) return true;
  const LayerKind* kind = plan_[next_ + ahead].kind;
  return kind == &shortcut_kind || kind == &end_kind;
}

void LayerBuilder::build() {
  for (auto& layer : row()) network_.append(std::move(layer));
  network_.finish();
}

LayerRow LayerBuilder::row(bool but_norm) {
  LayerRow row;
  LayerRow* const outer = std::exchange(row_, &row);
  while (!plan_.at_end() && !(but_norm && plan_.at(batch_norm_kind) && plan_.at_end(1))) {
    const PlannedLayer& layer = plan_.take();
    if (auto made = layer.kind->make(*this, layer)) append(std::move(made));
  }
  row_ = outer;
  return row;
}

void LayerBuilder::append(std::unique_ptr<Layer> layer) {
  row_->push_back(std::move(layer));
  first_ = false;
}

Building LayerBuilder::building(const PlannedLayer& layer) const {
  Building building = network_.building();
  building.shared = layer.arguments.shared;
  return building;
}

const Initializer& LayerBuilder::initializer(const PlannedLayer& layer) const {
  return layer.arguments.initializer ? *layer.arguments.initializer : use_.initializer;
}

Shape LayerBuilder::batch_of(const Shape& sample) const {
  Shape batch{use_.batch};
  for (int axis = 0; axis < sample.rank(); ++axis) batch.append(sample[axis]);
  return batch;
}

std::string GraphWalk::walk(std::string x) {
  while (!plan_.at_end()) {
    const PlannedLayer& layer = plan_.take();
    x = layer.kind->graph(*this, x, layer);
  }
  return x;
}

OnnxAttributes window_attributes(const LayerArguments& layer) {
  using Sizes = std::vector<std::int64_t>;
  return {{"kernel_shape", Sizes(2, layer.kernel)},
          {"strides", Sizes(2, layer.stride)},
          {"pads", Sizes(4, layer.padding)}};
}

std::string GraphWalk::take_batch_norm() {
  const PlannedLayer* norm = graph_.folds() ? plan_.take_if(batch_norm_kind) : nullptr;
  return norm == nullptr ? std::string() : norm->name;
}

}  // namespace flotilla
