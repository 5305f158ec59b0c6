// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "models/norm.hpp"

namespace flotilla {

/// Batch normalisation of images (N,C,H,W) or rows (N,C), and ReLU where `relu` says so. Tensors as Norm's.
class NormLayer : public Layer {
 public:
  struct Spec {
    Shape input;
    bool relu = false;
    bool accumulate = false;
    WorkerExchange* exchange = nullptr;
  };
  NormLayer(const Building& network, std::string name, const Spec& spec);

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

}  // namespace flotilla
