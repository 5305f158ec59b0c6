// SPDX-License-Identifier: Apache-2.0
#include "models/activation_memory.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

void ActivationMemory::keep(const Shape& shape, Tensor& where) {
  where = shape.rank() == 4 ? device_.images().tensor(shape) : device_.tensors().zeros(shape);
  kept_ += floats_of(shape);
}

void ActivationMemory::share(std::size_t slot, const Shape& shape, Tensor& where) {
  shares_.push_back({slot, shape, &where});
}

void ActivationMemory::plan_gradient(const Shape& shape, Gradient& where) {
  if (purpose_ == Purpose::inference) return;
  gradients_.push_back({shape, &where});
  largest_gradient_ = std::max(largest_gradient_, floats_of(shape));
}

std::int64_t ActivationMemory::floats_of(const Shape& shape) const {
  return static_cast<std::int64_t>(device_.tensors().floats_of(shape));
}

Tensor ActivationMemory::view_of(const Shape& shape, Storage& storage) {
  const DeviceSpan<float> span = storage.span().subspan(0, device_.tensors().floats_of(shape));
  return shape.rank() == 4 ? device_.images().view(shape, span) : Tensor(shape, span);
}

void ActivationMemory::allocate() {
  std::vector<std::int64_t> sizes;
  for (const Shared& share : shares_) {
    sizes.resize(std::max(sizes.size(), share.slot + 1));
    sizes[share.slot] = std::max(sizes[share.slot], floats_of(share.shape));
  }
  for (const std::int64_t size : sizes) {
    shared_.push_back(device_.memory().allocate(static_cast<std::size_t>(size)));
    shared_count_ += size;
  }
  for (const Shared& share : shares_) *share.where = view_of(share.shape, shared_[share.slot]);
  for (std::size_t slot = 0; slot < gradient_slots; ++slot) {
    slots_[slot] = device_.memory().allocate(static_cast<std::size_t>(largest_gradient_));
    for (const Planned& planned : gradients_)
      planned.where->views_[slot] = view_of(planned.shape, slots_[slot]);
  }
}

Tensor& ActivationMemory::take(Gradient& gradient) {
  const auto free = std::ranges::find(taken_, false);
  require(free != taken_.end(), "more than ", gradient_slots, " gradients of activations live at once");
  *free = true;
  return gradient.views_[static_cast<std::size_t>(free - taken_.begin())];
}

Tensor& ActivationMemory::same_slot(const Tensor& taken, Gradient& gradient) {
  for (std::size_t slot = 0; slot < gradient_slots; ++slot)
    if (slots_[slot].span().address() == static_cast<const void*>(taken.span().address()))
      return gradient.views_[slot];
  throw InternalError("a gradient that lies in no slot has no other view");
}

void ActivationMemory::give_back(const Tensor& gradient) {
  const void* const address = gradient.span().address();
  for (std::size_t slot = 0; slot < gradient_slots; ++slot)
    if (slots_[slot].span().address() == address) taken_[slot] = false;
}

}  // namespace flotilla
