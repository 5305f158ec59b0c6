// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/image_operations.hpp"
#include "kernels/onednn/norm_passes.hpp"
#include "kernels/onednn/primitive_scope.hpp"

namespace flotilla {

/// BatchNorm as own passes: forward reads x twice, backward what it needs twice, nothing else is kept.
class CpuBatchNorm : public BatchNorm {
 public:
  CpuBatchNorm(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts, const BatchNormSpec& spec);
  void statistics(const Tensor& x, Statistics batch) override;
  void normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                 Tensor& y) override;
  void backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                     const Tensor* more_dy, Tensor* dresidual, ScaleShiftGradients sums) override;
  void backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums, double count,
                     const Tensor& dy, Tensor& dx) override;
  void backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                const Tensor* more_dy, ScaleShiftGradients gradients, Tensor& dx, Tensor* dresidual) override;

 private:
  std::size_t channels() const { return static_cast<std::size_t>(layout_.channels); }
  void check(const char* name, const Tensor& tensor) const;
  double slope(GivenStatistics s, std::size_t channel) const;  // 1 / √(variance + ε)
  NormChannels prepare(ScaleShift w, GivenStatistics s);
  ImageSums image_sums() const;  // in the scratch memory

  std::shared_ptr<PrimitiveScope> scope_;
  BatchNormSpec spec_;
  ImageLayout layout_;
  std::vector<float> factors_;     // (C)
  std::vector<float> constants_;   // (C)
  std::vector<float> slopes_;      // (C)
  std::vector<float> local_sums_;  // (2,C): scale, shift
};

}  // namespace flotilla
