// SPDX-License-Identifier: Apache-2.0
#include "models/layer_list.hpp"

#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

class Planner {
 public:
  Planner(const LayerList& list, const Shape& sample) : list_(list), site_{.shape = layer_input(sample)} {}

  std::vector<PlannedLayer> plan() {
    for (const ListedLayer& layer : list_.layers) at_place(planned_.size(), [&] { add(layer); });
    if (residual_) at_place(*residual_, [] { throw UserError("this residual has no \"end\""); });
    at_place(planned_.size() - 1, [this] { check_outputs(); });
    return std::move(planned_);
  }

 private:
  void add(const ListedLayer& layer) {
    PlannedLayer next{layer, name_of(layer), site_.shape};
    if (site_.first && site_.is_image() && !layer.kind->takes_batch)
      throw UserError("the first layer of a network for images must be conv, flatten or linear");
    if (layer.kind == &residual_kind) begin();
    if (layer.kind == &end_kind) end(next);
    if (layer.kind->plan != nullptr) layer.kind->plan(site_, next);
    next.output = site_.shape;
    site_.first = false;
    planned_.push_back(std::move(next));
  }

  void begin() {
    if (residual_) throw UserError("a residual cannot be in another one: close that with \"end\" before");
    residual_ = planned_.size();
    layers_in_it_ = 0;
    site_.in_residual = true;
  }

  void end(PlannedLayer& next) {
    if (!residual_) throw UserError("there is no \"residual\" to end");
    if (planned_.size() == *residual_ + 1) throw UserError("there is no layer in this residual");
    next.input = planned_[*residual_].input;
    next.arguments.projection = planned_[*residual_].arguments.projection;
    residual_.reset();
    site_.in_residual = false;
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
    if (layer.kind == &end_kind) return cat(count_ - 1);
    if (residual_) return cat(count_ - 1, ".", layers_in_it_++);
    return cat(count_++);
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
  std::size_t count_ = 0;                ///< Of layers outside residuals
  std::optional<std::size_t> residual_;  ///< Index of the residual whose end was not met yet
  std::size_t layers_in_it_ = 0;
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
  const PlannedLayer& first = plan.front();
  const bool as_image = first.kind == &conv_kind;
  const Shape& sample = first.input;
  const Shape input =
      as_image ? Shape{use.batch, sample[0], sample[1], sample[2]} : Shape{use.batch, sample.size()};
  auto network = std::make_unique<Network>(device, NetworkSpec{.input = input,
                                                               .classes = plan.back().output[0],
                                                               .label_smoothing = use.label_smoothing,
                                                               .loss = use.loss,
                                                               .purpose = use.purpose});
  LayerBuilder(*network, plan, use).build();
  return network;
}

void LayerBuilder::build() {
  for (at_ = 0; at_ < plan_.size(); ++at_) {
    const PlannedLayer& next = plan_[at_];
    if (auto layer = next.kind->make(*this, next)) append(std::move(layer));
  }
  network_.finish();
}

bool LayerBuilder::takes(Activation activation) {
  if (at_ + 1 == plan_.size() || plan_[at_ + 1].kind->activation != activation) return false;
  ++at_;
  return true;
}

void LayerBuilder::append(std::unique_ptr<Layer> layer) {
  if (in_residual_) {
    body_.push_back(std::move(layer));
  } else {
    network_.append(std::move(layer));
  }
}

Shape LayerBuilder::batch_of(const Shape& sample) const {
  Shape batch{use_.batch};
  for (int axis = 0; axis < sample.rank(); ++axis) batch.append(sample[axis]);
  return batch;
}

std::vector<std::unique_ptr<Layer>> LayerBuilder::end_residual() {
  in_residual_ = false;
  return std::exchange(body_, {});
}

std::string add_layers(GraphBuilder& graph, const std::string& x, const std::vector<PlannedLayer>& plan) {
  return GraphWalk(graph, plan).walk(x);
}

std::string GraphWalk::walk(std::string x) {
  for (at_ = 0; at_ < plan_.size(); ++at_) x = plan_[at_].kind->graph(*this, x, plan_[at_]);
  return x;
}

std::string GraphWalk::take_batch_norm() {
  if (at_ + 1 == plan_.size() || plan_[at_ + 1].kind != &batch_norm_kind) return {};
  return plan_[++at_].name;
}

}  // namespace flotilla
