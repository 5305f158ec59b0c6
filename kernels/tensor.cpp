// SPDX-License-Identifier: Apache-2.0
#include "kernels/tensor.hpp"

#include "kernels/error.hpp"

namespace flotilla {

Shape::Shape(std::initializer_list<std::int64_t> extents) {
  for (const std::int64_t extent : extents) append(extent);
}

std::int64_t Shape::size() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
  return product;
}

void Shape::append(std::int64_t extent) {
  require(rank_ < max_rank, "a shape has at most ", max_rank, " axes");
  require(extent >= 0, "an extent must not be negative, got ", extent);
  extents_[static_cast<std::size_t>(rank_++)] = extent;
}

std::string Shape::text() const {
  if (rank_ == 0) return "scalar";
  std::string text = std::to_string((*this)[0]);
  for (int axis = 1; axis < rank_; ++axis) text += "x" + std::to_string((*this)[axis]);
  return text;
}

}  // namespace flotilla
