// SPDX-License-Identifier: Apache-2.0
#include "models/layer.hpp"

#include "kernels/error.hpp"

namespace flotilla {

void Building::place(const Shape& shape, Tensor& output) const {
  if (!shared) return memory.keep(shape, output);
  memory.share(shared->slot, shape, output);
  if (shared->recomputed) {
    memory.note_recomputed(shape);
  } else {
    memory.note_shared_anyway(shape);
  }
}

Tensor& Layer::single(const OutputGradient& dy) const {
  require(dy.more == nullptr, name_, " cannot add two gradients");
  return *dy.first;
}

void Chain::append(std::unique_ptr<Layer> layer) {
  layers_.push_back(std::move(layer));
  values_.push_back(nullptr);
}

void Chain::bind(const Arenas& arenas) const {
  for (const auto& layer : layers_) layer->bind(arenas);
}

const Tensor& Chain::forward(const Tensor& x, const PassInfo& info) {
  values_[0] = &x;
  for (std::size_t i = 0; i < layers_.size(); ++i) values_[i + 1] = &layers_[i]->forward(*values_[i], info);
  return output();
}

void Chain::replay(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) layers_[i]->forward(input(i), Pass::replay);
}

OutputGradient Chain::backward(OutputGradient dy) const {
  for (std::size_t i = layers_.size(); i-- > 0;) dy = layers_[i]->backward(input(i), dy);
  return dy;
}

void Chain::time_alone(TimedOperations& operations) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i]->time_alone(input(i), operations);
}

}  // namespace flotilla
